#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of README.md, the documents and the manual page, as tests/docs/commands.txt says for each of them.

Usage: commands.py KIND SOURCE_DIR BUILD_DIR [PATTERN]

A command is a line of a code block, what follows the prompt in a transcript, an example of the manual page, or, in the files
of INLINE, a piece of inline code that begins with the name of a program. Blocks marked ```text or ```yaml hold no commands.

The commands of KIND run, in the order of commands.txt; of PATTERN only those that match. KIND `run` also checks all commands: a
command that commands.txt does not name is a failure, and so is a name there that no document has, and a kind that no test runs.
Targets of make, presets, scripts, subcommands and options have to exist, also those in the inline code of the other documents.
If no command could run, the test is skipped, with the reason.
"""

import contextlib
import pathlib
import re
import sys

sys.dont_write_bytecode = True  # the source tree is only read

from command_checks import Checks, without_comment
from command_places import Directory, Skipped, System

PROMPT = re.compile(r"^(?:\w+\$|\$|#(?= [A-Z_]+=| anynet export)) (.*)")
FENCE = re.compile(r"^ *```(\w*)")
KINDS = ("run", "system", "nccl", "guest", "aarch64")
WORDS = (*KINDS, "as", "in", "if", "before", "then", "ends", "prints", "until")
SECONDS = {"run": 250, "nccl": 900, "guest": 900, "aarch64": 900}
INLINE = ("README.md", "docs/hardware.md", "docs/install.md", "docs/operations.md", "docs/settings.md")
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
    """(place, command, text of the script or None, whether it has to be in commands.txt) of each command in the documents."""
    pages = sorted([*source.glob("*.md"), *source.glob("docs/*.md"), *source.glob("bench/*.md")])
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
                if not name.startswith("bench/"):
                    for command, script in block_commands(language, block):
                        yield f"{name}:{number - len(block)}", command, script, True
                language = None
            elif language is not None:
                block.append(line)
            else:
                for code in re.findall(r"`([^`]+)`", line):
                    if PROGRAMS.match(code):
                        yield f"{name}:{number}", code, None, name in INLINE
    for number, line in enumerate((source / "docs/anynet.1").read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith(".Dl "):
            yield f"docs/anynet.1:{number}", PROMPT.match(line[4:].replace(r"\(dq", '"'))[1], None, True


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
        if word not in WORDS or entry is None or bool(rest) == (word in KINDS):
            raise SystemExit(f"{path}:{number}: {line}")
        entry[word] = rest
    for command, entry in found.items():
        if sum(kind in entry for kind in KINDS) != 1:
            raise SystemExit(f"{path}: '{command}' needs one of {', '.join(KINDS)}")
    return found


class Report:
    """Counts what was done, and prints what is wrong."""

    def __init__(self):
        self.done = self.left_out = self.wrong = 0
        self.reason = ""

    def fail(self, where, command, wrong):
        self.wrong += 1
        print(f"FAIL: {where}: {command}\n  {wrong}", flush=True)

    def carry_out(self, place, entry, where, command):
        """A command by what the list says of it; it is left out where its condition is not met, or it says so itself."""
        try:
            status, said = place.bash(place.filled(entry["if"])) if "if" in entry else (0, "")
            if status != 0:
                raise Skipped(said)
            wrong = place.run(entry, command)
        except Skipped as skipped:
            self.left_out += 1
            self.reason = str(skipped).strip().rpartition("\n")[2]
            return
        self.done += 1
        if wrong:
            self.fail(where, command, wrong)


def check_all(source, build, expected, report):
    """What has to hold for each command, whether it is run here or by another test."""
    checks, found = Checks(source, build), set()
    for where, command, script, listed in commands(source):
        wrong = checks.wrong(script or command)
        if listed and command not in expected:
            wrong = f"tests/docs/commands.txt does not name it{': ' + wrong if wrong else ''}"
        if wrong:
            report.fail(where, command, wrong)
        if listed:
            found.add(command)
    for command in expected.keys() - found:
        report.fail("tests/docs/commands.txt", command, "no document has it")
    tests = "".join(path.read_text(encoding="utf-8") for path in source.glob("tests/*/CMakeLists.txt"))
    for kind in KINDS:
        count = sum(kind in entry for entry in expected.values())
        if count and f"commands.py {kind} " not in tests:
            report.fail("tests", kind, "no test runs these commands")
        print(f"{count} commands are of the kind {kind}")


def main(arguments):
    kind = arguments[0]
    if kind == "system":
        System.enter()
    source, build = map(pathlib.Path, arguments[1:3])
    pattern = re.compile("".join(arguments[3:]))
    expected, report = read_list(source / "tests/docs/commands.txt"), Report()
    if kind == "run" and not pattern.pattern:
        check_all(source, build, expected, report)
    found = {}
    for where, command, script, listed in commands(source):
        if listed:
            found.setdefault(command, (where, script or command))
    with contextlib.ExitStack() as stack:
        place = System(source, stack) if kind == "system" else Directory(source, build, stack, SECONDS[kind])
        for command, entry in expected.items():
            if kind in entry and command in found and pattern.search(command):
                report.carry_out(place, entry, *found[command])
    print(f"{report.done} commands of the kind {kind} run, {report.left_out} left out, {report.wrong} wrong")
    if report.left_out and not report.done:
        print(report.reason if report.reason.startswith("SKIP") else f"SKIP: {report.reason}")
        return 77
    return bool(report.wrong)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
