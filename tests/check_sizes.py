#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No function has seven parameters or more, and no struct on the data path more than 20 fields: what belongs together has a
name of its own. Exempt is what NCCL's net API prescribes.

Usage: check_sizes.py SOURCE_DIR
"""

import os
import re
import sys

PARAMETERS_MAX = 6
FIELDS_MAX = 20
FUNCTIONS_IN = ("transports", "plugin", "tools", "bench")
STRUCTS_IN = ("transports/message", "transports/path")

# Their parameters are those of NCCL's net API.
PRESCRIBED = {
    "bench/raw_net.c": ("raw_irecv",),
    "plugin/abi_v8.c": ("abi_v8_irecv",),
    "plugin/abi_v9.c": ("irecv",),
    "plugin/abi_v12.c": ("abi_v12_reg_mr_dmabuf", "abi_v12_isend", "abi_v12_irecv"),
}

BALANCED = r"(?:[^(){};]|\([^()]*\))*"
FUNCTION = re.compile(rf"^(?![#\s}}])[^;{{}}()=#]*?\b(\w+)\(({BALANCED})\)\s*\{{", re.M)
STRUCT = re.compile(r"\bstruct (\w+) \{([^{}]*)\}")


def sources(source_dir, folders):
    for top in folders:
        for folder, _, files in os.walk(os.path.join(source_dir, top)):
            for name in sorted(name for name in files if name.endswith((".c", ".h"))):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    yield os.path.relpath(path, source_dir), without_comments(file.read())


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def count(text, separator):
    """Pieces between separators that stand in no brackets."""
    depth, pieces = 0, 1
    for char in text:
        depth += (char in "([") - (char in ")]")
        pieces += char == separator and depth == 0
    return pieces


def fields(body):
    """`int a, b;` are two."""
    return sum(count(line, ",") for line in body.split(";") if line.strip())


def functions(source_dir):
    for path, text in sources(source_dir, FUNCTIONS_IN):
        for name, parameters in FUNCTION.findall(text):
            number = count(parameters, ",")
            if number > PARAMETERS_MAX and name not in PRESCRIBED.get(path, ()):
                yield f"{path}: {name} has {number} parameters, at most {PARAMETERS_MAX} are allowed"


def structs(source_dir):
    for path, text in sources(source_dir, STRUCTS_IN):
        previous = None
        while previous != text:  # from the inside out: a nested struct is one field
            previous = text
            for name, body in STRUCT.findall(text):
                number = fields(body)
                if number > FIELDS_MAX:
                    yield f"{path}: struct {name} has {number} fields, at most {FIELDS_MAX} are allowed"
            text = STRUCT.sub(r"struct \1", text)
            text = re.sub(r"\b(struct|union) \{[^{}]*\}", r"\1", text)


def main(source_dir):
    found = [*functions(source_dir), *structs(source_dir)]
    print("\n".join(found) if found else "sizes: as they should be")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
