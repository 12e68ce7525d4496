# SPDX-License-Identifier: Apache-2.0
"""What has to exist for a command of the documents, whether it is run or not: targets, presets, scripts, subcommands, options."""

import contextlib
import json
import pathlib
import re
import shlex
import subprocess

# Programs of others, which are only checked for known names.
FOREIGN = set("""apt-get base64 cd chmod dpkg-deb echo eval exit export gnuplot head jq kubectl nft nproc pip rpm sh srun systemctl tar tee
    true ulimit update-alternatives ./train ./start CMD [""".split())


def without_comment(line):
    return re.sub(r"(^| +)#( .*|!.*|SBATCH.*)?$", "", line).strip()


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
            line = re.sub(r"(?<=[\w-])\$\([^()]*\)", "", line)
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
