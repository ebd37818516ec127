"""Text as it stands in a terminal, as an SVG picture. Standard library only."""

from xml.sax.saxutils import escape

WIDE, HIGH, MARGIN, BAR = 8.4, 18, 14, 30  # pixels: a cell, around the text, the window's bar


def picture(lines, title, columns=None):
    """`lines` in a window; `columns`: at least so wide."""
    width = max([len(line) for line in lines] + [columns or 0]) * WIDE + 2 * MARGIN
    height = len(lines) * HIGH + BAR + 2 * MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
           'font-family="DejaVu Sans Mono, Liberation Mono, Menlo, Consolas, monospace" font-size="14">',
           f'<rect width="{width:.0f}" height="{height:.0f}" rx="6" fill="#16191d"/>',
           f'<rect width="{width:.0f}" height="{BAR}" rx="6" fill="#2b3138"/>',
           f'<text x="{MARGIN}" y="20" fill="#9fb0c0">{escape(title)}</text>']
    for row, line in enumerate(lines):
        if line.strip():
            # textLength: the columns stand below each other whatever the reader's font.
            start = len(line) - len(line.lstrip())
            text = line.strip()
            out.append(f'<text x="{MARGIN + start * WIDE:.1f}" y="{BAR + MARGIN + row * HIGH + 13}" fill="#e4e9ee" xml:space="preserve" '
                       f'textLength="{len(text) * WIDE:.1f}" lengthAdjust="spacingAndGlyphs">{escape(text)}</text>')
    return "\n".join(out) + "\n</svg>\n"
