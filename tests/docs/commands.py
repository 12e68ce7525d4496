#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of README.md, the documents and the manual page, as tests/docs/commands.txt says for each of them.

Usage: commands.py [--system] SOURCE_DIR BUILD_DIR [PATTERN]

A command is a line of a code block, what follows the prompt in a transcript, an example of the manual page, or, in
README.md, docs/install.md and docs/operations.md, a piece of inline code that begins with the name of a program. Blocks marked
```text or ```yaml hold no commands. A command that commands.txt does not name is a failure, and so is a name there that
no document has. Of all of them targets of make, presets, scripts, subcommands and options have to exist. With --system the
commands marked `system` run, in the order of commands.txt; without it the others. PATTERN: only those that match.
"""

import contextlib
import pathlib
import re
import sys

sys.dont_write_bytecode = True  # the source tree is only read

from command_checks import Checks, without_comment
from command_places import Directory, System

PROMPT = re.compile(r"^(?:\w+\$|\$|#(?= [A-Z_]+=| anynet export)) (.*)")
FENCE = re.compile(r"^ *```(\w*)")
WORDS = ("run", "system", "dry", "as", "in", "if", "before", "then", "ends", "prints", "until", "check")
KINDS = ("run", "system", "dry", "check")
INLINE = ("README.md", "docs/install.md", "docs/operations.md")
PROGRAMS = re.compile(r"""^(?:[A-Z_]+=\S*\s)*(?:make$|make\s|(?:(?:bench|tests|build|tools)/\S*/?\w+\.sh)
    |(?:build/\S+|cmake|ctest|cpack|anynet|\S+/bin/anynet|net_bench|gnuplot|apt-get|nft|dpkg-deb|pip|tar|eval|srun|kubectl|systemctl
    |update-alternatives|ulimit|head|export)\s)""", re.X)


def block_commands(language, lines):
    """The commands of a code block. A script is one command, which its first line names."""
    if language in ("text", "yaml"):
        return
    if language == "sh" or lines[0].startswith("#!"):
        yield next(line for line in lines if not line.startswith("#!")), "\n".join(lines)
        return
    prompts = [PROMPT.match(line) for line in lines]
    if any(prompts):
        yield from ((match[1], None) for match in prompts if match)
        return
    for line in map(without_comment, lines):
        if line:
            yield line, None


def commands(source):
    """(place, command, text of the script or None) of each command in the documents."""
    pages = sorted([*source.glob("*.md"), *source.glob("docs/*.md")])
    for page in pages:
        name = str(page.relative_to(source))
        if name == "CHANGELOG.md":
            continue
        language, block = None, []
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            fence = FENCE.match(line)
            if fence and language is None:
                language, block = fence[1], []
            elif fence:
                for command, script in block_commands(language, block):
                    yield f"{name}:{number - len(block)}", command, script
                language = None
            elif language is not None:
                block.append(line)
            elif name in INLINE:
                for code in re.findall(r"`([^`]+)`", line):
                    if PROGRAMS.match(code):
                        yield f"{name}:{number}", code, None
    for number, line in enumerate((source / "docs/anynet.1").read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith(".Dl "):
            yield f"docs/anynet.1:{number}", PROMPT.match(line[4:].replace(r"\(dq", '"'))[1], None


def read_list(path):
    """{command: {word: rest of its line}}."""
    found, entry = {}, None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or re.match(r"#( {1,3}|$)(?!prolog)", line):
            continue
        if not line[0].isspace():
            entry = found.setdefault(line, {})
            if entry:
                raise SystemExit(f"{path}:{number}: named twice: {line}")
            continue
        word, _, rest = line.strip().partition(" ")
        if word not in WORDS or entry is None or bool(rest) == (word in ("run", "system", "dry")):
            raise SystemExit(f"{path}:{number}: {line}")
        entry[word] = rest
    for command, entry in found.items():
        if sum(kind in entry for kind in KINDS) != 1:
            raise SystemExit(f"{path}: '{command}' needs one of {', '.join(KINDS)}")
    return found


class Report:
    """Counts what was done, and prints what is wrong."""

    def __init__(self):
        self.counts = dict.fromkeys((*KINDS, "left out", "wrong"), 0)

    def add(self, where, command, kind, wrong):
        self.counts[kind] += 1
        if wrong:
            self.counts["wrong"] += 1
            print(f"FAIL: {where}: {command}\n  {wrong}", flush=True)

    def carry_out(self, place, found, entry, command):
        """A command by what the list says of it; where its condition is not met it is left out."""
        where, script = found
        kind = next(kind for kind in KINDS if kind in entry)
        if "if" in entry and place.bash(entry["if"])[0]:
            kind, wrong = "left out", None
        else:
            wrong = place.run(entry, script or command)
        self.add(where, command, kind, wrong)


def run_quick(source, build, expected, found):
    """Everything but what is run in a copy of this system."""
    checks, report = Checks(source, build), Report()
    with contextlib.ExitStack() as stack:
        place = Directory(source, build, stack)
        for command, (where, script) in found.items():
            entry = expected.get(command)
            wrong = checks.wrong(script or command)
            if entry is None:
                report.add(where, command, "check", f"tests/docs/commands.txt does not name it{': ' + wrong if wrong else ''}")
            elif not wrong and "run" in entry:
                report.carry_out(place, (where, script), entry, command)
            elif not wrong and "dry" in entry:
                report.add(where, command, "dry", checks.planned(command, place.env))
            else:
                report.add(where, command, "system" if "system" in entry else "check", wrong)
    return report.counts


def run_system(source, expected, found):
    """What changes the system, in a copy of it."""
    report = Report()
    with contextlib.ExitStack() as stack:
        place = System(source, stack)
        for command, entry in expected.items():
            if "system" in entry and command in found:
                report.carry_out(place, found[command], entry, command)
    return report.counts


def main(arguments):
    system = arguments[:1] == ["--system"]
    if system:
        System.enter()
    source, build = map(pathlib.Path, arguments[system:][:2])
    pattern = re.compile("".join(arguments[system + 2:]))
    expected = read_list(source / "tests/docs/commands.txt")
    found = {}
    for where, command, script in commands(source):
        if pattern.search(command):
            found.setdefault(command, (where, script))
    counts = run_system(source, expected, found) if system else run_quick(source, build, expected, found)
    for command in expected.keys() - found.keys() if not pattern.pattern else ():
        counts["wrong"] += 1
        print(f"FAIL: tests/docs/commands.txt: no document has: {command}")
    if system:
        print("{system} commands run, {left out} left out, {wrong} wrong".format(**counts))
    else:
        print("{run} commands run, {system} run by docs.system, {dry} planned by make -n, {check} checked only, {left out} left out,"
              " {wrong} wrong".format(**counts))
    return bool(counts["wrong"])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
