"""Man pages from --help, so that they never tell anything else: make_man.py P2PW P2PWD FOLDER.

Writes p2pw.1 and p2pwd.8. Python standard library only.
"""

import os
import subprocess
import sys


def text_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout


def quoted(text):
    """Text as it stands, safe from troff."""
    lines = []
    for line in text.rstrip().splitlines():
        line = line.replace("\\", "\\e").replace("-", "\\-")
        lines.append("\\&" + line if line.startswith((".", "'")) else line)
    return "\n".join(lines)


def section(title, text):
    return f".SH {title}\n.nf\n{quoted(text)}\n.fi\n"


def page(name, number, version, summary, sections):
    head = f'.TH {name.upper()} {number} "" "p2pw {version}" "p2pw"\n.SH NAME\n{name} \\- {quoted(summary)}\n'
    return head + "".join(section(title, text) for title, text in sections)


def verbs_of(help_text):
    """The verbs stand two blanks in, in groups below their headings; options begin with a dash."""
    verbs = []
    for line in help_text.splitlines():
        words = line.split()
        if line.startswith("  ") and not line.startswith("   ") and words and words[0].isalpha():
            verbs.append(words[0])
    return verbs


FILES = """/etc/p2pw/p2pw.toml       configuration; p2pw config prints every value in force
/etc/p2pw/publisher.key   on the trainer: signs versions; the daemon never reads it
/var/lib/p2pw             keys, records, bundles, slots of the daemon
/var/lib/p2pw/channels/CHANNEL/current
                          the checkpoint in use"""


def main():
    p2pw, p2pwd, folder = sys.argv[1:]
    version = text_of(p2pw, "--version").split()[-1]
    help_text = text_of(p2pw, "--help")
    verbs = verbs_of(help_text)
    if len(verbs) < 15:
        sys.exit(f"make_man.py: only {len(verbs)} verbs were found in p2pw --help")
    sections = [("SYNOPSIS", "p2pw VERB [options]"), ("DESCRIPTION", help_text)]
    sections += [(f'"P2PW {verb.upper()}"', text_of(p2pw, verb, "--help")) for verb in verbs]
    sections += [("FILES", FILES), ('"SEE ALSO"', "p2pwd(8)")]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "p2pw.1"), "w", encoding="utf-8") as file:
        file.write(page("p2pw", 1, version, "moves new weights from one trainer to a fleet of nodes", sections))
    sections = [("SYNOPSIS", "p2pwd [--config FILE]"), ("DESCRIPTION", text_of(p2pwd, "--help")),
                ("FILES", FILES), ('"SEE ALSO"', "p2pw(1)")]
    with open(os.path.join(folder, "p2pwd.8"), "w", encoding="utf-8") as file:
        file.write(page("p2pwd", 8, version, "the node daemon of p2pw", sections))


main()
