"""Common to the checks of Markdown pages: the list of pages, and the parts of a page."""
import re
import subprocess
from pathlib import Path


def pages(folder=None):
    """The pages of a folder, at any depth; without one this project's, as git lists them."""
    if folder:
        return sorted(Path(folder).rglob("*.md"))
    root = Path(__file__).resolve().parent.parent
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=root, check=True,
                            capture_output=True, text=True).stdout.split("\n")
    return [root / name for name in listed if name and (root / name).exists()]


def text_of(page):
    """The page without code: what looks like a link in code is none."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", lambda code: code.group().replace("](", "] ("), text)


def anchors(page):
    """The names that GitHub gives to the page's headings, in their order."""
    names = []
    for heading in re.findall(r"^#+ +(.*?) *$", text_of(page), flags=re.M):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        names.append(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return names


class Block:
    """A paragraph, list item, table or block of code: its kind, lines and place."""

    def __init__(self, kind, line, language=""):
        self.kind, self.line, self.language, self.lines = kind, line, language, []


class Section:
    """A heading, and the blocks below it up to the next heading."""

    def __init__(self, level, title, line):
        self.level, self.title, self.line, self.blocks = level, title, line, []


def kind_of(line):
    """What kind of block begins with the line, if it is not inside one."""
    if line.startswith("    "):
        return "code"
    if line.startswith("|"):
        return "table"
    return "item" if re.match(r"([-*]|\d+\.) ", line) else "paragraph"


def sections(page):
    """The page's sections, in their order; the first one is the text above the first heading."""
    found = [Section(0, page.name, 1)]
    fence = False
    block = None  # the one that the next line continues
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        blocks = found[-1].blocks
        if line.startswith("```"):
            fence = not fence
            block = Block("code", number, line[3:].strip()) if fence else None
            if fence:
                blocks.append(block)
        elif fence:
            block.lines.append(line)
        elif re.match(r"#+ ", line):
            level = len(line.split(" ")[0])
            found.append(Section(level, line[level:].strip(), number))
            block = None
        elif not line.strip():
            block = None
        else:
            kind = kind_of(line)
            if not block or kind == "item" or (kind == "table") != (block.kind == "table"):
                block = Block(kind, number)
                blocks.append(block)
            block.lines.append(line)
    return found
