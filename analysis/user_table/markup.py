"""Tables in texts: pipes and boxes, columns between blanks, HTML and LaTeX; each with its title and lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser

Table = tuple[str, list[tuple[int, list[str]]]]  # the title, and each row's line and cells

_BOXES = {code: "+" for code in range(0x2500, 0x2580)} | dict.fromkeys(map(ord, "─━═╌╍┄┅┈┉"), "-")
_BOXES |= dict.fromkeys(map(ord, "│┃║╎╏┆┇┊┋"), "|")
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*?)[\s#]*|\s*(\*\*[^*|]+\*\*[^|*.]{0,60}):?\s*")
_RULE = re.compile(r"[|\s:+=~-]*[-=][|\s:+=~-]*")
_WIKI = re.compile(r"\{\||\|\}|\|\+")  # lines of a MediaWiki table that are no rows
_GAP = re.compile(r" {2,}|\t")


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the number of each line, the headings above it, and its text with plain characters for those of boxes."""
    headings: dict[int, str] = {}
    for number, line in enumerate(text.translate(_BOXES).split("\n"), 1):
        if len(line) < 500 and (heading := _HEADING.fullmatch(line)):
            level = len(heading[1] or " " * 7)
            headings = {above: title for above, title in headings.items() if 2 < above < level}
            headings[level] = _without_markup(heading[2] or heading[3] or "")
            line = ""
        yield number, ", ".join([*headings.values()][-2:]), line
    yield 0, "", ""


def pipes(text: str) -> list[Table]:
    """Return the tables whose cells stand between pipes or the lines of a box, as those of Markdown, Org and wikis.

    They have a rule, or a pipe at the begin of every line.
    """
    tables: list[Table] = []
    block: list[tuple[int, str]] = []
    above = ""
    for number, title, line in _lines(text):
        line = line.strip()
        above = above if block else title
        if line and (_RULE.fullmatch(line) or "|" in line or line[0] == "!"):
            block += [] if _WIKI.match(line) else [(number, line)]
            continue
        rows = [(at, _cells(row)) for at, row in block if not _RULE.fullmatch(row)]
        ruled = len(rows) < len(block) or all(row[0] in "|!" for _, row in block)
        if len(rows) > 1 and ruled and max(len(cells) for _, cells in rows) > 1:
            tables.append((above, rows))
        block = []
    return tables


def _cells(line: str) -> list[str]:
    """Return the cells of a line; "||" and "!!" are between cells of wikis."""
    if line.startswith("||") or re.match(r"[|!] .* (?:\|\||!!)", line):
        line = re.sub(r"\|\||!!", "|", line)
    line = re.sub(r'style="[^"]*" *\|', "", re.sub(r"^!", "|", line))
    cells = re.split(r"(?<!\\)\|", re.sub(r"^\||(?<!\\)\|$", "", line))
    return [_without_markup(cell.replace("\\|", "|")) for cell in cells]


def _without_markup(text: str) -> str:
    """Return a cell without markup: footnotes, links, tags, emphasis, code, and the alignment of Textile."""
    text = re.sub(r"<sup>[^<]*</sup>|\[\^\w+\]|!?\[([^\[\]]*)\]\([^()]*\)", r"\1", text)
    text = re.sub(r"\*\*|'''|__|`|~~|\\(?=[~*_<>#])", "", re.sub(r"<[^<>]{1,80}>|&\w{2,6};", " ", text))
    text = re.sub(r"^\s*(?:_\.|[<>=]\.)(?=\s)", "", text)
    return re.sub(r"\s+", " ", re.sub(r"^\s*([*_])(.*)\1\s*$", r"\2", text)).strip()


def aligned(text: str) -> list[Table]:
    """Return the tables between blank lines whose columns are two blanks apart, or below a rule with gaps."""
    tables: list[Table] = []
    block: list[tuple[int, str]] = []
    above = ""
    for number, title, line in _lines(text):
        if line.strip() and title == above:
            block.append((number, line.rstrip()))
            continue
        if rows := _split(block):
            tables.append((above, rows))
        above, block = title, [(number, line.rstrip())] if line.strip() else []
    return tables


def _split(block: Sequence[tuple[int, str]]) -> list[tuple[int, list[str]]]:
    """Return the rows of a block of lines, each with as many cells; else []."""
    rules = [line for _, line in block if _RULE.fullmatch(line)]
    rows = [(at, line) for at, line in block if not _RULE.fullmatch(line)]
    ends = [match.start() for match in re.finditer(r"(?<= )[-=]+", rules[0])] if rules else []
    if ends:
        spans = list(zip([0, *ends], [*ends, None], strict=True))
        return [(at, [line[start:end].strip() for start, end in spans]) for at, line in rows]
    return _even([(at, _GAP.split(line.strip())) for at, line in rows])


def _even(rows: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """Return rows of as many cells, two or more, behind titles of one; [] if they differ, or end in separators.

    A header with a cell less than all others stands above a table with an index.
    """
    while rows and len(rows[0][1]) == 1:
        rows = rows[1:]
    widths = {len(cells) for _, cells in rows[1:]}
    if len(rows) < 2 or len(widths) > 1 or max(widths) < 2 or any(c[-1:] in (",", ";") for _, r in rows for c in r):
        return []
    (at, head), missing = rows[0], max(widths) - len(rows[0][1])
    return [(at, [""] * missing + head), *rows[1:]] if missing in (0, 1) else []


def blanks(text: str) -> list[Table]:
    """Return the table of lines whose cells are a blank apart; its headers may stand in a comment."""
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    comments = [(number, line.lstrip("# ")) for number, line in lines if line.startswith("#")]
    rows = [(number, line.split()) for number, line in lines if not line.startswith("#")]
    heads = [(number, line.split()) for number, line in comments if rows and number < rows[0][0]]
    if heads and len(heads[-1][1]) == len(rows[0][1]):
        rows = [heads[-1], *rows]
    return [("", rows)] if (rows := _even(rows)) else []


def latex(text: str) -> list[Table]:
    """Return the tables of LaTeX."""
    tables: list[Table] = []
    for match in re.finditer(
        r"\\begin\{(tabular\w?\*?|longtable)\}(?:\[\w+\]|\{[^{}]*\})*(.*?)\\end\{\1\}", text, re.S
    ):
        line = text[: match.start(2)].count("\n") + 1
        rows = []
        for part in re.sub(
            r"\\(?:[a-z]*rule|hline|end[a-z]*|caption\{[^{}]*\}|label\{[^{}]*\})\S*", "", match[2]
        ).split(r"\\"):
            cells = [
                re.sub(r"\\(?=[_%&#$])|\\(?:textbf|textit)\{|[{}$]", "", cell) for cell in re.split(r"(?<!\\)&", part)
            ]
            rows += [(line, [cell.strip() for cell in cells])] if len(cells) > 1 else []
            line += part.count("\n")
        rows = [(line, cells) for at, (line, cells) in enumerate(rows) if not at or cells != rows[0][1]]
        tables += [("", rows)] if len(rows) > 1 else []
    return tables


class _Html(HTMLParser):
    """The tables of a document: cells that span several columns are repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[Table] = []
        self.title, self.text, self.span = "", "", 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append((self.title, []))
        elif tag == "tr" and self.tables:
            self.tables[-1][1].append((self.getpos()[0], []))
        if tag in ("td", "th", "caption", "h1", "h2", "h3", "h4"):
            span = dict(attributes).get("colspan") or "1"
            self.text, self.span = "", int(span) if span.isdigit() and len(span) < 3 else 1

    def handle_endtag(self, tag: str) -> None:
        text = re.sub(r"\s+", " ", self.text).strip()
        if tag in ("td", "th") and self.tables and self.tables[-1][1]:
            self.tables[-1][1][-1][1].extend([text] * self.span)
        elif tag in ("h1", "h2", "h3", "h4"):
            self.title = text

    def handle_data(self, text: str) -> None:
        self.text += text


def html(text: str) -> list[Table]:
    """Return the tables of a document in HTML."""
    if not re.match(r"\s*<", text):
        return []
    parser = _Html()
    parser.feed(text)
    return [(title, rows) for title, rows in parser.tables if len(rows) > 1]
