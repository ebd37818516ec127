"""Pictures of what simulations/fleet prints: python3 simulations/src/fleet_plots.py [--out DIR] [--results FILE].

Runs every scenario, keeps the JSON lines in DIR/results.jsonl and writes one SVG for each picture. With --results it draws
what is in FILE and runs nothing. Python standard library only.
"""

import argparse
import html
import json
import math
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FLEET = os.environ.get("P2PW_FLEET", os.path.join(HERE, "..", "fleet"))  # another binary, for tests
SCENARIOS = ["wan-2x3", "blog-1tib", "regions-16x250", "churn-5000", "slow-region", "publish-30s", "trainer-1gbit"]
STRATEGIES = ["object-store", "relay-tree", "fixed-gateway", "open-swarm", "p2pw"]
COLOURS = {"object-store": "#b8b8b8", "relay-tree": "#e0a458", "fixed-gateway": "#7a9e7e", "open-swarm": "#9c89b8",
           "p2pw": "#c8102e"}
INK, FAINT, PAPER = "#222", "#ddd", "#fff"


class Svg:
    """A drawing with a title, in pixels."""

    def __init__(self, width, height, title, note=""):
        self.width, self.height = width, height
        self.parts = [f'<rect width="{width}" height="{height}" fill="{PAPER}"/>']
        self.text(20, 28, title, size=17, weight="bold")
        if note:
            self.text(20, 48, note, size=12, fill="#666")

    def text(self, x, y, words, size=12, anchor="start", fill=INK, weight="normal"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}" '
                          f'font-weight="{weight}">{html.escape(str(words))}</text>')

    def rect(self, x, y, w, h, fill):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 0.5):.1f}" height="{h:.1f}" fill="{fill}"/>')

    def line(self, points, colour, width=1.0, dash=""):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{extra}/>')

    def dot(self, x, y, colour):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')

    def save(self, path):
        with open(path, "w", encoding="utf-8") as out:
            out.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
                      f'viewBox="0 0 {self.width} {self.height}" font-family="Helvetica, Arial, sans-serif">\n')
            out.write("\n".join(self.parts))
            out.write("\n</svg>\n")


class Log:
    """A logarithmic axis."""

    def __init__(self, low, high, start, end):
        self.low, self.high = math.floor(math.log10(low)), math.ceil(math.log10(high))
        if self.high == self.low:
            self.high += 1
        self.start, self.end = start, end

    def at(self, value):
        share = (math.log10(max(value, 10**self.low)) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self):
        return [10**e for e in range(self.low, self.high + 1)]


def short(value):
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def bars(results, key, title, note, unit, path):
    """One group of bars for each scenario, a bar for each strategy, longer is worse."""
    groups = [s for s in SCENARIOS if any(s == scenario for scenario, _ in results)]
    row, gap, left, right, top = 15, 14, 150, 90, 70
    height = top + len(groups) * (row * len(STRATEGIES) + gap) + 40
    svg = Svg(900, height, title, note)
    values = [r[key] for r in results.values() if r[key] > 0]
    axis = Log(min(values), max(values), left, 900 - right)
    for tick in axis.ticks():
        x = axis.at(tick)
        svg.line([(x, top - 6), (x, height - 30)], FAINT)
        svg.text(x, height - 14, short(tick) + unit, anchor="middle", fill="#666", size=11)
    y = top
    for scenario in groups:
        svg.text(left - 10, y + row * len(STRATEGIES) / 2 + 4, scenario, anchor="end", weight="bold")
        for strategy in STRATEGIES:
            r = results.get((scenario, strategy))
            if r:
                x = axis.at(r[key])
                svg.rect(left, y + 1, x - left, row - 3, COLOURS[strategy])
                svg.text(x + 5, y + row - 4, f"{short(r[key])}{unit}  {strategy}", size=10,
                         fill=INK if strategy == "p2pw" else "#666", weight="bold" if strategy == "p2pw" else "normal")
            y += row
        y += gap
    svg.save(path)


def regions(stated, unstated, path):
    """slow-region: when each region's last node is done, with and without rates in the placement."""
    svg = Svg(900, 380, "slow-region: one region has a tenth of the bandwidth",
              "seconds until a region's last node is staged; r4 is the slow one")
    names = list(stated["by_region"])
    top = max(r["last_node_seconds"] for run in (stated, unstated) for r in run["by_region"].values())
    base, left, tall = 330, 60, 240
    for tick in range(0, int(top) + 10, 10):
        y = base - tall * tick / top
        svg.line([(left, y), (880, y)], FAINT)
        svg.text(left - 8, y + 4, tick, anchor="end", fill="#666", size=11)
    step = 800 / len(names)
    for i, name in enumerate(names):
        x = left + 15 + i * step
        for run, colour, shift in ((unstated, "#b8b8b8", 0), (stated, COLOURS["p2pw"], 32)):
            value = run["by_region"][name]["last_node_seconds"]
            high = tall * value / top
            svg.rect(x + shift, base - high, 28, high, colour)
            svg.text(x + shift + 14, base - high - 4, f"{value:.0f}", size=10, anchor="middle")
        svg.text(x + 30, base + 18, name, anchor="middle")
    svg.rect(left + 15, 360, 12, 12, "#b8b8b8")
    svg.text(left + 33, 370, "a chain in any order")
    svg.rect(left + 215, 360, 12, 12, COLOURS["p2pw"])
    svg.text(left + 233, 370, "slow regions last (regions state their rates)")
    svg.save(path)


def control(rows, flat, path):
    """Bytes per second of each kind of daemon as the fleet grows."""
    svg = Svg(900, 460, "Control traffic as the fleet grows 10x each time",
              "bytes per second of one daemon, headers included; regions of 250, 32 at most, 1 % of the nodes replaced per hour, "
              "a version a minute")
    kinds = [("mean", "#222", lambda r: r["mean_bytes_per_second"])]
    for name, colour in (("node", "#c8102e"), ("candidate", "#7a9e7e"), ("bootstrap", "#e0a458"), ("trainer", "#5b7db1")):
        kinds.append((name, colour, lambda r, name=name: r[name]["bytes_per_second"]))
    everything = [get(r) for r in rows + flat for _, _, get in kinds]
    y_axis = Log(min(everything), max(everything), 400, 80)
    x_axis = Log(rows[0]["nodes"], rows[-1]["nodes"], 80, 760)
    for tick in y_axis.ticks():
        svg.line([(80, y_axis.at(tick)), (760, y_axis.at(tick))], FAINT)
        svg.text(72, y_axis.at(tick) + 4, short(tick), anchor="end", fill="#666", size=11)
    for row in rows:
        svg.text(x_axis.at(row["nodes"]), 420, f"{row['nodes']:,}", anchor="middle", size=11, fill="#666")
    for name, colour, get in kinds:
        svg.line([(x_axis.at(r["nodes"]), y_axis.at(get(r))) for r in flat], colour, 1, "3,4")
        svg.line([(x_axis.at(r["nodes"]), y_axis.at(get(r))) for r in rows], colour, 2)
        for r in rows:
            svg.dot(x_axis.at(r["nodes"]), y_axis.at(get(r)), colour)
        svg.text(772, y_axis.at(get(rows[-1])) + 4, name, fill=colour, weight="bold")
    svg.text(80, 446, "nodes; dashed: as if every hub told everybody everything and repeated it every 5 s", fill="#666")
    svg.save(path)


def staleness(results, path):
    rows = [(s, results[("publish-30s", s)]["staleness_seconds"]) for s in STRATEGIES if ("publish-30s", s) in results]
    svg = Svg(900, 90 + 60 * len(rows), "publish-30s: how old is what a node serves",
              "seconds since a newer version was published: share of node-time below 50, 95, 99 %, and the most")
    axis = Log(0.1, max(r["most"] for _, r in rows), 150, 840)
    for tick in axis.ticks():
        svg.line([(axis.at(tick), 66), (axis.at(tick), 66 + 60 * len(rows))], FAINT)
        svg.text(axis.at(tick), 82 + 60 * len(rows), short(tick) + " s", anchor="middle", size=11, fill="#666")
    for i, (name, r) in enumerate(rows):
        y = 96 + 60 * i
        svg.text(140, y + 4, name, anchor="end", weight="bold")
        svg.line([(axis.at(r["p50"]), y), (axis.at(r["most"]), y)], COLOURS[name], 6)
        for n, key in enumerate(("p50", "p95", "p99", "most")):
            svg.dot(axis.at(r[key]), y, INK)
            svg.text(axis.at(r[key]), y + (18 if n % 2 else -10), f"{short(r[key])}", anchor="middle", size=10)
    svg.save(path)


def run(out, *arguments):
    print("fleet", *arguments, file=sys.stderr)
    made = subprocess.run([FLEET, *arguments, "--json"], check=True, stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in made.stdout.splitlines()]
    for row in rows:
        out.append({"arguments": list(arguments), "result": row})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.path.join(HERE, "..", "plots"))
    parser.add_argument("--results", help="draw these and run nothing")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    rows = []
    if options.results:
        with open(options.results, encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
    else:
        for scenario in SCENARIOS:
            run(rows, scenario)
            for strategy in STRATEGIES:
                if strategy != "p2pw":  # ships the same in both tables
                    run(rows, scenario, "--own", "--strategy", strategy)
        run(rows, "slow-region", "--strategy", "p2pw", "--rates-unstated")
        run(rows, "control")
        run(rows, "control", "--tell-all")
        with open(os.path.join(options.out, "results.jsonl"), "w", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
    same = {(r["result"]["scenario"], r["result"]["strategy"]): r["result"] for r in rows
            if len(r["arguments"]) == 1 and "strategy" in r["result"]}
    own = {(r["result"]["scenario"], r["result"]["strategy"]): r["result"] for r in rows if "--own" in r["arguments"]}
    own.update({key: r for key, r in same.items() if key[1] == "p2pw"})
    unstated = next(r["result"] for r in rows if "--rates-unstated" in r["arguments"])
    picture = lambda name: os.path.join(options.out, name + ".svg")
    bars(same, "last_node_seconds", "Until the last node has the version", "the same bytes by each way; shorter is better",
         " s", picture("last-node"))
    bars(same, "cross_region_copies", "Copies of a version that enter a region over the WAN", "1 is the least there can be",
         "", picture("copies"))
    bars(own, "dollars_per_step", "Dollars per step for traffic between regions",
         "each way with its own codec and anchors, 0.02 dollars per GB", " $", picture("dollars"))
    bars(own, "last_node_seconds", "Until the last node has the version", "each way with its own codec and anchors", " s",
         picture("last-node-own"))
    regions(same[("slow-region", "p2pw")], unstated, picture("slow-region"))
    staleness(same, picture("staleness"))
    costs = [r["result"] for r in rows if r["arguments"] == ["control"]]
    control(costs, [r["result"] for r in rows if "--tell-all" in r["arguments"]], picture("control"))


if __name__ == "__main__":
    main()
