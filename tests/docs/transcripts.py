#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The findings of `anynet explain` in the documents are what the tool prints for the lines that they quote.

Usage: transcripts.py TOOL FILE...
"""

import os
import pathlib
import re
import subprocess
import sys

FINDING = re.compile(r"^ERROR  (?:.*\n)+?(?=   (?:see|consequences)|```|…|\n)", re.M)


def texts(finding):
    """Its title and rule, the reason and the remedy: without the place."""
    return re.sub(r"^   \S+:\d+.*\n", "", finding, flags=re.M).strip()


def main():
    tool, wrong, found = sys.argv[1], 0, 0
    for path in map(pathlib.Path, sys.argv[2:]):
        for match in FINDING.finditer(path.read_text(encoding="utf-8")):
            quoted = re.search(r"^   > (.*)", match[0], re.M)[1]
            said = subprocess.run([tool, "explain", "-"], input=quoted + "\n", capture_output=True, text=True, check=False,
                                  env={**os.environ, "COLUMNS": "100"}).stdout
            expected = FINDING.search(said + "\n")
            found += 1
            if not expected or texts(expected[0]) != texts(match[0]):
                wrong += 1
                print(f"{path} has:\n{texts(match[0])}\nthe tool prints:\n{texts(expected[0]) if expected else said}\n")
    if not found:
        print("no finding in the documents")
    return 1 if wrong or not found else 0


if __name__ == "__main__":
    raise SystemExit(main())
