#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the texts of the source that users can see: every string literal with a blank between words, sorted, each once.

Usage: messages.py [-c FILE | -u FILE] DIRECTORY...
-c compares with FILE instead, and prints what differs. Exit 1: they differ. -u writes FILE.

The first word says what prints it: warn, info and chat are log lines (include/nccl_net/log.h), text is all else.
"""

import argparse
import difflib
import pathlib
import re

TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"((?:[^"\\\n]|\\.)*)"|'(?:[^'\\]|\\.)+'|[A-Za-z_]\w*|\S""", re.S)
CALLS = {"anynet_warn": "warn", "anynet_info": "info", "anynet_chat": "chat"}
WORDS = re.compile(r"[A-Za-z%]\S* +\S*[A-Za-z%]")


def tokens(source):
    """(literal or None, token) of each token, without comments, preprocessor lines and assertions of the compiler."""
    source = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", "", source, flags=re.M)
    source = re.sub(r"static_assert\(.*?\);", "", source, flags=re.S)
    for match in TOKEN.finditer(source):
        if not match[0].startswith(("//", "/*")):
            yield match[1], match[0]
    yield None, ";"


def texts(source):
    """(kind, text) of each run of literals; a conversion of inttypes.h is part of its run."""
    kind, run = "text", None
    for literal, token in tokens(source):
        if literal is not None:
            run = (run or "") + literal
        elif run is not None and token.startswith("PRI"):
            run += f"<{token}>"
        else:
            if run is not None:
                yield kind, run
            run = None
            kind = CALLS.get(token, "text" if token == ";" else kind)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1])
    parser.add_argument("-c", dest="compare", type=pathlib.Path)
    parser.add_argument("-u", dest="update", type=pathlib.Path)
    parser.add_argument("directories", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    lines = set()
    for directory in arguments.directories:
        for path in (*directory.rglob("*.[ch]"), *directory.rglob("config_*.def")):
            for kind, text in texts(path.read_text(encoding="utf-8")):
                if WORDS.search(text) or (kind != "text" and re.search("[a-z]{2}", text)):
                    lines.add(f"{kind} {text}\n")
    lines = sorted(lines)
    if arguments.update:
        arguments.update.write_text("".join(lines), encoding="utf-8")
        return 0
    if not arguments.compare:
        print("".join(lines), end="")
        return 0
    golden = arguments.compare.read_text(encoding="utf-8").splitlines(keepends=True)
    difference = list(difflib.unified_diff(golden, lines, str(arguments.compare), "the source", n=0))
    print("".join(difference), end="")
    if difference:
        print(f"If this is meant: tests/docs/messages.py -u {arguments.compare} {' '.join(map(str, arguments.directories))}")
    return 1 if difference else 0


if __name__ == "__main__":
    raise SystemExit(main())
