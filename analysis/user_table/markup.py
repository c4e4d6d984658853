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
_LATEX_RULE = re.compile(r"\s*\\(?:[a-z]*rule|c?line|hline|begin|multicolumn|end(?:first|last)?(?:head|foot))\b")
_LATEX_MARKUP = re.compile(r"\\hline|\\(?=[_%&#$])|\\text(?:bf|it)\{|[{}$]")
_HTML_ROW = re.compile(r"<tr\b.*?(?=<tr\b|</table|\Z)", re.I | re.S)
_HTML_CELL = re.compile(
    r"<t[hd]\b(?:[^<>]{0,300}?colspan\D{0,2}(\d{1,2})\b)?[^<>]{0,300}>(.*?)(?=<t[hd]\b|</t[rhd]|\Z)", re.I | re.S
)
_HTML_HEADING = re.compile(r"<h([1-4])\b[^<>]{0,200}>", re.I)
# These may stand on the line of a row.
_HTML_TABLE = re.compile(r"</?(?:table|thead|tbody|html|body|div)\b[^<>]{0,300}>", re.I)


def read_markup(text: str) -> list[Table]:
    """Return the tables of a text: those between pipes, of HTML and of LaTeX, else those between blanks."""
    tables: dict[str, list[Table]] = {"pipes": [], "blanks": []}
    for (title, kind), group in itertools.groupby(_lines(_with_pipes(text)), lambda item: (item[1], _kind(item[2]))):
        lines = [(number, line) for number, _, line in group]
        rows = _piped(lines) if kind == "pipes" else _aligned(lines) if kind else []
        if rows:
            tables[kind].append((title, rows))
    return tables["pipes"] or tables["blanks"]


def rows_share_lines(text: str) -> bool:
    """Return whether rows of HTML begin on one line: then the lines of `read_markup` are not those of the text."""
    return bool(re.match(r"\s*<", text) and re.search(r"<tr\b.*<tr\b", text, re.I))


def _with_pipes(text: str) -> str:
    """Return a text with the rows of tables of HTML and LaTeX between pipes, on the lines where they begin.

    A row of LaTeX is one line.
    """
    if re.match(r"\s*<", text):
        text = _HTML_TABLE.sub("", _HTML_ROW.sub(_html_row, text))
        text = _HTML_HEADING.sub(lambda heading: "#" * int(heading[1]) + " ", text)
    if "\\begin{" in text:
        text = "\n".join(map(_latex_line, text.split("\n")))
    return text


def _latex_line(line: str) -> str:
    """Return a line of LaTeX: a row of a table between pipes, a rule as one, or as it is."""
    row, end, _ = line.partition("\\\\")
    cells = [_LATEX_MARKUP.sub("", cell).strip() for cell in re.split(r"(?<!\\)&", row)]
    return f"| {' | '.join(cells)} |" if end and cells[1:] else "|-|" if _LATEX_RULE.match(line) else line


def _html_row(row: re.Match[str]) -> str:
    """Return a row of HTML between pipes, with rules for its other lines; a cell over several columns is repeated."""
    cells = [cell for span, cell in _HTML_CELL.findall(row[0]) for _ in range(int(span or 1))]
    texts = (" ".join(cell.replace("|", "\\|").split()) for cell in cells)
    return f"| {' | '.join(texts)} |" + "\n|-|" * (row[0].count("\n") - 1) + "\n"


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


def _piped(lines: Sequence[tuple[int, str]]) -> Rows:
    """Return the rows between pipes, as in Markdown, Org and wikis; they have a rule, or begin with pipes."""
    lines = [(at, line.strip()) for at, line in lines if not _WIKI.match(line.strip())]
    texts = [(at, line) for at, line in lines if not _RULE.fullmatch(line)]
    if texts and texts[0][1][0] == "|" and not any(line[0] in "|!" for _, line in texts[1:]):
        texts[0] = (texts[0][0], f"| {texts[0][1]}")  # above an index
    rows = [(at, _cells(line)) for at, line in texts]
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
    texts = [(at, line) for at, line in lines if not _RULE.fullmatch(line)]
    if rules and " " in rules[0].strip():
        ends = [match.start() for match in re.finditer(r"(?<= )[-=]+", rules[0])]
        spans = list(zip([0, *ends], [*ends, None], strict=True))
        return [(at, [line[start:end].strip() for start, end in spans]) for at, line in texts] if texts[1:] else []
    return _even(texts, r" {2,}|\t")


def _even(lines: Sequence[tuple[int, str]], separator: str) -> Rows:
    """Return rows of as many cells, two or more, behind titles of one; [] if they differ, or end in separators.

    A header with a cell less than all others stands above a table with an index: it begins behind their first cells, or
    these count from 0.
    """
    rows = [(at, re.split(separator, line.strip())) for at, line in lines]
    titles = sum(1 for _ in itertools.takewhile(lambda row: len(row[1]) == 1, rows))
    rows, texts = rows[titles:], [line for _, line in lines[titles:]]
    widths = {len(cells) for _, cells in rows[1:]}
    if len(widths) != 1 or max(widths) < 2 or any(cell[-1:] in (",", ";") for _, row in rows for cell in row):
        return []
    (at, head), *others = rows
    ends = [line.index(cells[0]) + len(cells[0]) for (_, cells), line in zip(others, texts[1:], strict=True)]
    counting = [cells[0] for _, cells in others] == [*map(str, range(len(others)))]
    indexed = len(head) + 1 == max(widths) and (counting or max(ends) <= texts[0].index(head[0]))
    return [(at, [""] * indexed + head), *others] if len(head) + indexed == max(widths) else []


def blanks(text: str) -> Rows:
    """Return the table of lines whose cells are a blank apart; its headers may stand in a comment."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    rows = [(number, line) for number, line in lines if not line.lstrip().startswith("#")]
    comments = [*itertools.takewhile(lambda line: line[1].lstrip().startswith("#"), lines)]
    heads = [(number, line.lstrip("# ")) for number, line in comments[-1:]]
    return _even([*(head for head in heads if rows and len(head[1].split()) == len(rows[0][1].split())), *rows], r"\s+")
