#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of README.md, the documents and the manual page, as tests/docs/commands.txt says for each of them.

Usage: commands.py SOURCE_DIR BUILD_DIR [PATTERN]

A command is a line of a code block, what follows the prompt in a transcript, an example of the manual page, or, in
README.md, docs/install.md and docs/operations.md, a piece of inline code that begins with the name of a program. Blocks marked
```text or ```yaml hold no commands. A command that commands.txt does not name is a failure, and so is a name there that
no document has. Of all of them targets of make, presets, scripts, subcommands and options have to exist. PATTERN: only
those that match.
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap

PROMPT = re.compile(r"^(?:\w+\$|\$|#(?= [A-Z_]+=| anynet export)) (.*)")
FENCE = re.compile(r"^ *```(\w*)")
INLINE = ("README.md", "docs/install.md", "docs/operations.md")
PROGRAMS = re.compile(r"""^(?:[A-Z_]+=\S*\s)*(?:make$|make\s|(?:(?:bench|tests|build|tools)/\S*/?\w+\.sh)
    |(?:build/\S+|cmake|ctest|cpack|anynet|\S+/bin/anynet|net_bench|gnuplot|apt-get|nft|dpkg-deb|pip|tar|eval|srun|kubectl|systemctl
    |update-alternatives|ulimit|head|export)\s)""", re.X)
# Programs that are not anynet's: that their names are right is all that can be known.
FOREIGN = set("""apt-get cd chmod dpkg-deb echo eval exit export gnuplot head jq kubectl nft nproc pip rpm sh srun systemctl tar tee
    true ulimit update-alternatives ./train ./start CMD [""".split())
SECONDS = 60


def without_comment(line):
    return re.sub(r"(^| +)#( .*|!.*|SBATCH.*)?$", "", line).strip()


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
    """{command: {"run": command, "ends": statuses, "reason": …}}."""
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
        if word not in ("run", "as", "ends", "prints", "until", "check") or entry is None or (word != "run" and not rest):
            raise SystemExit(f"{path}:{number}: {line}")
        entry[word] = rest
    for command, entry in found.items():
        if ("run" in entry) == ("check" in entry):
            raise SystemExit(f"{path}: '{command}' is to be run, or checked for a reason")
    return found


class Checks:
    """What has to exist, whether a command is run or not."""

    def __init__(self, source, build):
        self.source, self.build = source, build
        presets = json.loads((source / "CMakePresets.json").read_text(encoding="utf-8"))
        self.presets = {preset["name"] for preset in presets["configurePresets"]}
        self.targets = set(re.findall(r"^([a-z][a-z-]*):", (source / "Makefile").read_text(encoding="utf-8"), re.M))
        self.usages = {}

    def usage(self, command):
        if command not in self.usages:
            self.usages[command] = subprocess.run([self.build / "tools/anynet", command, "--usage"], capture_output=True, text=True,
                                                  check=False)
        return self.usages[command]

    def simple(self, words):
        """What is wrong with a command without operators; None: nothing."""
        while words and re.match(r"[A-Za-z_]\w*=", words[0]):
            words = words[1:]
        if not words:
            return None
        program, arguments = words[0], words[1:]
        if program == "srun" and "anynet" in words:
            return self.simple(words[words.index("anynet"):])
        if program == "anynet" or program.endswith("/bin/anynet"):
            return self.anynet(arguments)
        if program == "make":
            wrong = [word for word in arguments if "=" not in word and word not in self.targets]
            return f"no target '{wrong[0]}'" if wrong else None
        if program in ("cmake", "cpack", "ctest"):
            preset = arguments[arguments.index("--preset") + 1] if "--preset" in arguments else None
            return f"no preset '{preset}'" if preset and preset not in self.presets else None
        if program == "net_bench":
            return None if (self.source / f"bench/{program}.c").exists() or list(self.source.glob("bench/**/net_bench*")) else "gone"
        if program.endswith(".sh"):
            return self.script(program, arguments)
        if program.startswith("build/release/"):
            name = pathlib.Path(program.rstrip(" …")).name
            known = subprocess.run(["grep", "-rqwF", "--include=CMakeLists.txt", name, self.source / "tests", self.source / "bench"],
                                   check=False)
            return f"nothing builds {name}" if known.returncode else None
        return None if program in FOREIGN else f"'{program}' is no known program"

    def anynet(self, arguments):
        if not arguments or arguments[0].startswith("-"):
            return None
        command, text = arguments[0], self.usage(arguments[0]).stdout
        if command in ("help", "version"):
            return None
        if not text.startswith("Usage: anynet"):
            return f"anynet has no command '{command}'"
        if command == "run":
            return None
        for word in arguments[1:]:
            option = re.match(r"--[a-z_-]+|-\w", word)
            if option and option[0].startswith("--") and not re.search(rf"\[{option[0]}[]=]", text):
                return f"anynet {command} has no {option[0]}"
            if option and not option[0].startswith("--") and not re.search(rf"\[-\w*{option[0][1]}\w*[]?]|\[{option[0]} ", text):
                return f"anynet {command} has no {option[0]}"
        return None

    def script(self, program, arguments):
        path = self.source / program
        if not path.exists():
            return f"no file {program}"
        text = path.read_text(encoding="utf-8")
        if subprocess.run(["bash", "-n", path], check=False).returncode:
            return f"{program} has a wrong syntax"
        wrong = [word for word in arguments if word.startswith("--") and word != "--" and word.split("=")[0] not in text]
        return f"{program} has no {wrong[0]}" if wrong else None

    def wrong(self, text):
        """What is wrong with a command or script; None: nothing."""
        said = subprocess.run(["bash", "-n", "-c", text.replace("…", "")], capture_output=True, text=True, check=False)
        if said.returncode:
            return said.stderr.strip()
        for line in text.splitlines():
            line = re.sub(r"\$\(|\)(?= |$|\")|^\w+=\$\(", " ", without_comment(line).replace("[ $?", "[ 0"))
            line = re.sub(r"\d?>&?\s*\S+", "", line)
            with contextlib.suppress(ValueError):
                lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;")
                lexer.whitespace_split, words = True, []
                for word in [*lexer, ";"]:
                    if set(word) <= set("&|;"):
                        wrong = self.simple(words)
                        if wrong:
                            return wrong
                        words = []
                    else:
                        words.append(word)
        return None


class Place:
    """A directory in which the commands work: logs, programs, a job that runs, a server, and stand-ins for launchers."""

    def __init__(self, source, build, stack):
        self.dir = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.stack = stack
        here = self.dir
        (here / "bin").mkdir()
        (here / "logs").mkdir()
        (here / "shm").mkdir()
        log = "vm:19963:19963 [0] bootstrap.cc:114 NCCL WARN Bootstrap : no socket interface found\n"
        for name in ("logs/rank0.log", "logs/rank1.log", "job.log", "job-1.txt"):
            (here / name).write_text(log, encoding="utf-8")
        for name, text in {
                "train": f"printf '%s' '{log.strip()}'; echo",
                "start": "true",
                # The stand-in for a launcher starts one process here.
                "bin/srun": 'while case ${1-} in -*) ;; *) false ;; esac; do shift; done; exec "$@"',
                # The stand-in for ssh: the last argument is the command.
                "bin/ssh": 'for command; do :; done; exec sh -c "$command"'}.items():
            (here / name).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
            (here / name).chmod(0o755)
        for name in ("Makefile", "CMakePresets.json", "CMakeLists.txt", "bench", "tests", "tools", "docs"):
            (here / name).symlink_to(source / name)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "ANYNET_"))}
        self.env |= {"PATH": f"{here / 'bin'}:{build / 'tools'}:{build / 'bench'}:{os.environ['PATH']}", "HOME": str(here),
                     "ANYNET_TRANSPORT": "tcp", "ANYNET_STATS": str(here / "shm"), "NCCL_SOCKET_IFNAME": "lo", "LC_ALL": "C.UTF-8"}
        loaded = re.search(r"^anynet: (version .*) …$", (source / "README.md").read_text(encoding="utf-8"), re.M)[1]
        loaded = re.sub(r"/\S+", "/FILE", loaded)
        self.words = {"build": str(build), "here": str(here), "loaded": re.escape(loaded).replace("/FILE", r"/\S+")}

    def background(self, command, pattern):
        """Start a program that ends with the test; the first match of `pattern` in what it prints."""
        process = subprocess.Popen(command, cwd=self.dir, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   start_new_session=True)
        self.stack.callback(process.wait)
        self.stack.callback(os.killpg, process.pid, signal.SIGKILL)
        said = ""
        for line in process.stdout:
            said += line
            match = re.search(pattern, line)
            if match:
                return match[match.re.groups]
        raise SystemExit(f"{' '.join(command)} ended without '{pattern}':\n{said}")

    def start(self):
        plugin = f"{self.words['build']}/libnccl-net.so"
        self.words["pid"] = self.background(
            ["stdbuf", "-oL", "anynet", "perf", "--net", plugin, "-b", "64K", "-e", "64K", "-n", "1000000"], r"Rank  1 Pid +(\d+)")
        self.words["server"] = "127.0.0.1:" + self.background(["anynet", "serve", "--port", "0"], r"port (\d+)")
        while not list((self.dir / "shm").glob("anynet-stats.*")):
            pass

    def filled(self, text):
        return re.sub(r"\{([a-z]+)\}", lambda match: self.words[match[1]], text)

    def run(self, entry, command):
        """What is wrong; None: nothing."""
        text = entry.get("as", command)
        if "pid" not in self.words and re.search(r"\{(pid|server)\}|anynet top", text):
            self.start()
        text = self.filled(text)
        if "until" in entry:
            self.background(["bash", "-c", text], entry["until"])
            return None
        try:
            done = subprocess.run(["bash", "-c", text], cwd=self.dir, env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"it did not end within {SECONDS} s"
        said = done.stdout + done.stderr
        if str(done.returncode) not in entry.get("ends", "0").split(","):
            return f"exit status {done.returncode} instead of {entry.get('ends', '0')}\n{textwrap.indent(said, '    ')}"
        if "prints" in entry and not re.search(self.filled(entry["prints"]), said):
            return f"it does not print '{entry['prints']}':\n{textwrap.indent(said, '    ')}"
        return None


def main():
    source, build = map(pathlib.Path, sys.argv[1:3])
    pattern = re.compile(sys.argv[3] if len(sys.argv) > 3 else "")
    expected = read_list(source / "tests/docs/commands.txt")
    checks, bad, seen, ran = Checks(source, build), 0, {}, 0
    with contextlib.ExitStack() as stack:
        place = Place(source, build, stack)
        for where, command, script in commands(source):
            if command in seen or not pattern.search(command):
                continue
            seen[command] = where
            entry = expected.get(command)
            wrong = checks.wrong(script or command)
            if entry is None:
                wrong = f"tests/docs/commands.txt does not name it{': ' + wrong if wrong else ''}"
            elif not wrong and "run" in entry:
                missing = shutil.which(command.split()[0], path=place.env["PATH"]) is None and command.split()[0] == "gnuplot"
                wrong = None if missing else place.run(entry, script or command)
                ran += not missing
            if wrong:
                bad += 1
                print(f"FAIL: {where}: {command}\n  {wrong}")
    for command in expected.keys() - seen.keys() if not pattern.pattern else ():
        bad += 1
        print(f"FAIL: tests/docs/commands.txt: no document has: {command}")
    print(f"{len(seen)} commands: {ran} run, {len(seen) - ran} checked only, {bad} wrong")
    return bool(bad)


if __name__ == "__main__":
    raise SystemExit(main())
