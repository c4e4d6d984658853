"""Tables in texts: pipes and boxes, columns between blanks, HTML and LaTeX; each with its title and lines."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from html import unescape

Rows = list[tuple[int, list[str]]]  # each row's line and cells
Table = tuple[str, Rows]  # behind its title

_BOXES = {code: "+" for code in range(0x2500, 0x2580)} | dict.fromkeys(map(ord, "─━═╌╍┄┅┈┉"), "-")
_BOXES |= dict.fromkeys(map(ord, "│┃║╎╏┆┇┊┋"), "|")
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*?)[\s#]*|\s*(\*\*[^*|]+\*\*[^|*.]{0,60}):?\s*")
_RULE = re.compile(r"[|\s:+=~-]*[-=][|\s:+=~-]*")
_WIKI = re.compile(r"\{\||\|\}|\|\+")  # lines of a MediaWiki table that are no rows
_LATEX_RULE = re.compile(r"\\(?:[a-z]*rule|hline|end[a-z]*|caption\{[^{}]*\}|label\{[^{}]*\})\S*")
_LATEX_MARKUP = re.compile(r"\\(?=[_%&#$])|\\text(?:bf|it)\{|[{}$]")
_HTML_HEADING = re.compile(r"<h[1-4][^<>]{0,200}>([^<]{0,200})", re.I)


def read_markup(text: str) -> list[Table]:
    """Return the tables of a text: of HTML, of LaTeX, else those between pipes, else those between blanks."""
    return [(title, rows) for title, rows in _html(text) or _latex(text) if len(rows) > 1] or _printed(text)


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the number of each line, the headings above it, and its text with plain characters for those of boxes."""
    headings: dict[int, str] = {}
    for number, line in enumerate(text.translate(_BOXES).split("\n"), 1):
        if len(line) < 500 and (heading := _HEADING.fullmatch(line)):
            level = len(heading[1] or " " * 7)
            headings = {above: title for above, title in headings.items() if 2 < above < level}
            headings[level] = _without_markup(heading[2] or heading[3] or "")
            line = ""
        yield number, ", ".join([*headings.values()][-2:]), line.rstrip()


def _kind(line: str) -> str:
    """Return whether a line is one of a table between pipes, another, or blank."""
    text = line.strip()
    piped = "|" in text or text.startswith("!") or ("+" in text and _RULE.fullmatch(text))
    return "pipes" if piped else "blanks" if text else ""


def _printed(text: str) -> list[Table]:
    """Return the tables between pipes; if there are none, those whose columns stand between blanks."""
    tables: dict[str, list[Table]] = {"pipes": [], "blanks": []}
    for (title, kind), group in itertools.groupby(_lines(text), lambda item: (item[1], _kind(item[2]))):
        lines = [(number, line) for number, _, line in group]
        rows = _piped(lines) if kind == "pipes" else _aligned(lines) if kind else []
        if rows:
            tables[kind].append((title, rows))
    return tables["pipes"] or tables["blanks"]


def _piped(lines: Sequence[tuple[int, str]]) -> Rows:
    """Return the rows between pipes, as in Markdown, Org and wikis; they have a rule, or begin with pipes."""
    lines = [(at, line.strip()) for at, line in lines if not _WIKI.match(line.strip())]
    rows = [(at, _cells(line)) for at, line in lines if not _RULE.fullmatch(line)]
    ruled = len(rows) < len(lines) or all(line[0] in "|!" for _, line in lines)
    return rows if ruled and len(rows) > 1 and max(len(cells) for _, cells in rows) > 1 else []


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
    text = re.sub(r"\*\*|'''|__|`|~~|\\(?=[~*_<>#])", "", unescape(re.sub(r"<[^<>]{1,80}>", " ", text)))
    text = re.sub(r"^\s*(?:_\.|[<>=]\.)(?=\s)", "", text)
    return re.sub(r"\s+", " ", re.sub(r"^\s*([*_])(.*)\1\s*$", r"\2", text)).strip()


def _aligned(lines: Sequence[tuple[int, str]]) -> Rows:
    """Return the rows of lines whose columns are two blanks apart, or below a rule with gaps; else []."""
    rules = [line for _, line in lines if _RULE.fullmatch(line)]
    rows = [(at, line) for at, line in lines if not _RULE.fullmatch(line)]
    ends = [match.start() for match in re.finditer(r"(?<= )[-=]+", rules[0])] if rules else []
    if ends:
        spans = list(zip([0, *ends], [*ends, None], strict=True))
        return [(at, [line[start:end].strip() for start, end in spans]) for at, line in rows] if rows[1:] else []
    return _even([(at, re.split(r" {2,}|\t", line.strip())) for at, line in rows])


def _even(rows: Rows) -> Rows:
    """Return rows of as many cells, two or more, behind titles of one; [] if they differ, or end in separators.

    A header with a cell less than all others stands above a table with an index.
    """
    rows = [*itertools.dropwhile(lambda row: len(row[1]) == 1, rows)]
    widths = {len(cells) for _, cells in rows[1:]}
    if len(widths) != 1 or max(widths) < 2 or any(cell[-1:] in (",", ";") for _, row in rows for cell in row):
        return []
    (at, head), missing = rows[0], max(widths) - len(rows[0][1])
    return [(at, [""] * missing + head), *rows[1:]] if missing in (0, 1) else []


def blanks(text: str) -> Rows:
    """Return the table of lines whose cells are a blank apart; its headers may stand in a comment."""
    lines = [(number, line.split()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    rows = [(number, cells) for number, cells in lines if not cells[0].startswith("#")]
    above = (
        [(number, " ".join(cells).lstrip("# ").split()) for number, cells in lines if number < rows[0][0]]
        if rows
        else []
    )
    if above and len(above[-1][1]) == len(rows[0][1]):
        rows = [above[-1], *rows]
    return _even(rows)


def _parts(text: str, begin: str) -> list[tuple[int, str]]:
    """Return the texts behind each begin of an element, each with its line; it takes linear time."""
    line, parts = 1, []
    for part in re.split(begin, text, flags=re.I):
        parts.append((line, part))
        line += part.count("\n")
    return parts


def _latex(text: str) -> list[Table]:
    """Return the tables of LaTeX; a header that is repeated for the next page counts once."""
    tables: list[Table] = []
    for line, table in _parts(text, r"\\begin\{(?:tabular\w?\*?|longtable)\}")[1:]:
        body = re.sub(r"^(?:\[\w+\]|\{[^{}]*\})*", "", table.partition(r"\end{")[0])
        rows: Rows = []
        for below, part in _parts(_LATEX_RULE.sub("", body), r"\\\\"):
            cells = [_LATEX_MARKUP.sub("", cell).strip() for cell in re.split(r"(?<!\\)&", part)]
            if len(cells) > 1 and cells not in [head for _, head in rows[:1]]:
                rows.append((line + below - 1, cells))
        tables.append(("", rows))
    return tables


def _html(text: str) -> list[Table]:
    """Return the tables of a document in HTML; a cell that spans several columns is repeated."""
    tables: list[Table] = []
    title = ""
    for line, part in _parts(text, "<table") if re.match(r"\s*<", text) else ():
        rows: Rows = []
        for below, row in _parts(re.split("</table", part, flags=re.I)[0], "<tr")[1:]:
            cells: list[str] = []
            for _, cell in _parts(row, r"<t(?=[hd]\b)")[1:]:
                span = re.match(r"[^>]*colspan\D{0,2}(\d{1,2})\b", cell)
                cells += [_without_markup(cell.partition(">")[2])] * int(span[1] if span else 1)
            rows.append((line + below - 1, cells))
        tables.append((title, rows))
        title = _without_markup(([title, *_HTML_HEADING.findall(part)])[-1])
    return tables
