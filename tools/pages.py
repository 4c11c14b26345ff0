"""What the checks of Markdown pages share: which pages there are, and their headings as GitHub names them."""
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
    """The page without code: what looks like a link there is none."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", lambda code: code.group().replace("](", "] ("), text)


def anchors(page):
    """The names that GitHub gives to the page's headings, in their order."""
    names = []
    for heading in re.findall(r"^#+ +(.*?) *$", text_of(page), flags=re.M):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        names.append(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return names
