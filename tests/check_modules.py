#!/usr/bin/env python3
"""Checks that every module includes only what docs/architecture.md lets it include.

The table there has a row per module: | `name` | its job | `module`, `module`, Library, Library |
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "architecture.md"

# Which headers belong to which library of the table. Others (fmt, spdlog, the standard library) anyone may include.
LIBRARIES = {
    "libtorch": r"^(ATen|torch|c10)/",
    "Highway": r"^hwy/",
    "Asio": r"^boost/(asio|system)/",
    "protobuf": r"^(google/protobuf/|.*\.pb\.h$)",
    "Beast": r"^boost/beast/",
    "OpenSSL": r"^openssl/",
    "CLI11": r"^CLI/",
    "toml++": r"^toml\+\+/",
    "SentencePiece": r"^sentencepiece",
    "OpenMP": r"^omp\.h$",
}
INCLUDE = re.compile(r'^\s*#include\s+(?:"([^"]+)"|<([^>]+)>)')


def read_table():
    """The modules, and what each may use: {name: set of module and library names}."""
    allowed = {}
    for line in TABLE.read_text().splitlines():
        row = re.match(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", line)
        if row:
            uses = re.findall(r"`(\w+)`", row.group(2))
            libraries = [library for library in LIBRARIES if library in row.group(2)]
            allowed[row.group(1)] = {row.group(1), "base", *uses, *libraries}
    return allowed


def violations(path, module, allowed):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        own, foreign = match.groups()
        where = f"{path.relative_to(ROOT)}:{number}"
        if own:
            target = own.split("/")[0]
            if target not in allowed[module]:
                yield f"{where}: {module} may not include {target} ({own})"
            if "/internal/" in own and target != module:
                yield f"{where}: {own} is private to {target}"
        else:
            for library, pattern in LIBRARIES.items():
                if re.match(pattern, foreign) and library not in allowed[module]:
                    yield f"{where}: {module} may not include {library} ({foreign})"


def main():
    allowed = read_table()
    folders = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
    problems = [f"src/{name} has no row in {TABLE.name}" for name in sorted(folders - allowed.keys())]
    checked = 0
    for module in sorted(folders & allowed.keys()):
        for path in sorted((ROOT / "src" / module).rglob("*")):
            if path.suffix in (".h", ".cc"):
                checked += 1
                problems += violations(path, module, allowed)
    if checked == 0:
        problems.append("no sources found")
    print("\n".join(problems) or f"{checked} files of {len(folders)} modules keep to the table")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
