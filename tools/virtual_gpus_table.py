"""Puts the results of tools/virtual-gpus (build/virtual/results) into the tables of docs/virtual-gpus.md.

A result replaces its field; the other fields stay, because they were run elsewhere. `tools/virtual-gpus --markdown` runs this.
"""
import pathlib
import re
import sys

ORDER = """copies plans few-plans steps few-steps trainer few-trainer staging libraries loops few-ops ops engines few-engines fusion
few-fusion templates models orders races engine-races few-faults faults whole-ops whole-engines whole-templates
whole-engine-races""".split()
RESULTS, RUNS = "| part | gfx", "| day |"


def fields(line):
    return [field.strip() for field in line.strip().strip("\n").removeprefix("|").removesuffix("|").split("|")]


def read_table(lines, head):
    """First line, end, and the fields of the rows below the two lines of the head."""
    begin = next(i for i, line in enumerate(lines) if line.startswith(head))
    end = next(i for i in range(begin, len(lines) + 1) if i == len(lines) or not lines[i].startswith("|"))
    return begin, end, [fields(line) for line in lines[begin + 2 : end]]


def read_cells(head, rows):
    """{(part, chip): (passed, commit)} of the table."""
    cells = {}
    for part, *row in rows:
        common = re.fullmatch(r"(.*) \(([0-9a-f]{7}\+?)\)", part)
        part = common[1] if common else part
        for chip, cell in zip(head, row):
            own = re.fullmatch(r"(.*) ([0-9a-f]{7}\+?)", cell)
            if cell:
                cells[part, chip] = (own[1], own[2]) if own else (cell, common[2])
    return cells


def read_results(text):
    """{(part, chip): (passed, commit)} and {commit: day} of the results, whose shards count as one."""
    sums, days = {}, {}
    for line in text.splitlines():
        chip, part, passed, failed, skipped, _, commit, *day = line.split("\t")
        part, *shard = part.replace("@", ", CUDA ").rsplit(" ", 1) if "/" in part else [part.replace("@", ", CUDA ")]
        count = sums.setdefault((part, chip), [0, 0, 0, 0, 1, commit])
        for i, number in enumerate((passed, failed, skipped)):
            count[i] += int(number)
        count[3] += 1
        count[4:] = int(shard[0].split("/")[1]) if shard else 1, commit
        if day:
            days[commit] = max(day[0], days.get(commit, ""))
    cells = {}
    for key, (passed, failed, skipped, ran, shards, commit) in sums.items():
        text = f"{passed} of {passed + failed}" if failed else str(passed)
        text += f" + {skipped} skipped" if skipped else ""
        text += f" in {ran} of {shards} shards" if ran < shards else ""
        cells[key] = (text, commit)
    return cells, days


def sorted_chips(chips):
    """By vendor, generation and number, with letters after digits: gfx90a comes after gfx908."""
    return sorted(chips, key=lambda chip: (chip[:2], len(chip), chip))


def row_of(part, chips, cells):
    row = [cells.get((part, chip)) for chip in chips]
    commits = {cell[1] for cell in row if cell}
    name = f"{part} ({commits.pop()})" if len(commits) == 1 else part
    texts = ["" if not cell else f" {cell[0]} " if name != part else f" {cell[0]} {cell[1]} " for cell in row]
    return f"| {name} |" + "|".join(texts) + "|"


def place(part):
    """Parts in the order of the page, those of other drivers (`steps, CUDA 12.2`) after all others."""
    name, _, driver = part.partition(", ")
    return driver, ORDER.index(name) if name in ORDER else len(ORDER), part


def updated(page, results):
    """The page with the results in its tables."""
    lines = page.splitlines()
    begin, end, rows = read_table(lines, RESULTS)
    chips = fields(lines[begin])[1:]
    cells = read_cells(chips, rows)
    fresh, days = read_results(results)
    cells.update(fresh)
    chips += sorted_chips({chip for _, chip in fresh} - set(chips))
    parts = sorted({part for part, _ in cells}, key=place)
    table = [f"| part | {' | '.join(chips)} |", "| --- |" + " --- |" * len(chips), *(row_of(part, chips, cells) for part in parts)]
    lines[begin:end] = table
    begin, end, rows = read_table(lines, RUNS)
    known = {commit: day for day, commits in rows for commit in commits.split(", ")} | days
    by_day = {}
    for commit in {commit for _, commit in cells.values()}:
        by_day.setdefault(known.get(commit, "not known"), []).append(commit)
    lines[begin:end] = ["| day | commits |", "| --- | --- |", *(f"| {day} | {', '.join(sorted(by_day[day]))} |" for day in sorted(by_day))]
    return "\n".join(lines) + "\n"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    page, results = root / "docs" / "virtual-gpus.md", root / "build" / "virtual" / "results"
    if not results.exists():
        sys.exit(f"there is no {results.relative_to(root)} yet: tools/virtual-gpus nvidia|amd makes it")
    page.write_text(updated(page.read_text(), results.read_text()))


if __name__ == "__main__":
    main()
