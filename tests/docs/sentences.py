#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the average number of words a sentence of each document, and of all. Code blocks, tables and headings do not count.

Usage: sentences.py [-l WORDS] FILE...
-l prints each sentence of more than WORDS words as well.
"""

import argparse
import re


def prose(text):
    """The paragraphs and list items, one string each."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    block = []
    for line in text.splitlines() + [""]:
        stripped = line.strip()
        skip = not stripped or stripped.startswith(("|", "#"))
        item = re.match(r"(?:[-*]|\d+\.) +", stripped)
        if block and (skip or item):
            yield " ".join(block)
            block = []
        if not skip:
            block.append(stripped[item.end():] if item else stripped)


def sentences(text):
    for paragraph in prose(text):
        paragraph = re.sub(r"`[^`]*`", "CODE", paragraph)
        paragraph = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
        paragraph = re.sub(r"[*_]{2}", "", paragraph)
        for sentence in re.split(r"(?<=[.?!])[)\"]? +(?=[A-Z(\"“0-9])", paragraph):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if words:
                yield len(words), sentence


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1])
    parser.add_argument("-l", dest="longest", type=int)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    all_words = all_sentences = 0
    for path in arguments.files:
        with open(path, encoding="utf-8") as file:
            found = list(sentences(file.read()))
        words = sum(count for count, _ in found)
        all_words += words
        all_sentences += len(found)
        print(f"{words / max(len(found), 1):5.1f}  {len(found):4d}  {path}")
        for count, sentence in found:
            if arguments.longest and count > arguments.longest:
                print(f"       {count}: {sentence}")
    print(f"{all_words / max(all_sentences, 1):5.1f}  {all_sentences:4d}  all")


if __name__ == "__main__":
    main()
