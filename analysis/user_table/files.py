"""Files as grids of text cells: any encoding, CSV, TSV, Markdown, HTML, JSON, LaTeX and aligned text."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from analysis import TableError
from analysis.user_table.numbers import has_value

SEPARATORS = {",": "','", ";": "';'", "\t": "tabs", "|": "'|'"}
_LARGEST = 64 * 2**20  # bytes of one file
_KINDS = {
    b"\x89PNG": "a picture", b"\xff\xd8\xff": "a picture", b"GIF8": "a picture", b"%PDF": "a PDF file",
    b"\x1f\x8b": "a compressed file", b"PK\x03\x04": "a ZIP archive", b"\xd0\xcf\x11\xe0": "an old Office file",
    b"\x7fELF": "a program", b"SQLite": "a database", b"\x89HDF": "an HDF5 file", b"PAR1": "a Parquet file",
}  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """The cells of one table as text, row by row, with the line of the file on which each row begins.

    format: how it was read, in words. title: what stands above it. decimal: the mark before decimals that its
    separator leaves, "" for either.
    """

    where: str
    format: str
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]
    title: str = ""
    decimal: str = ""


@dataclass(frozen=True)
class Text:
    """The text of one file."""

    where: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Its lines, whatever ends them."""
        return re.split(r"\r\n|\r|\n", self.text)


def texts(path: Path) -> list[Text]:
    """The text of a file, of each file in a folder (at any depth, by name), or of standard input for "-".

    Raises TableError where there is none, naming the file, and for one that is no text.
    """
    if str(path) == "-":
        return [Text("standard input", decode(sys.stdin.buffer.read(_LARGEST + 1), "standard input"))]
    try:
        if path.is_dir():
            files = sorted(one for one in path.rglob("*") if one.is_file() and not one.name.startswith("."))
            if not files:
                raise TableError(f"{path}: an empty folder")
            return [Text(str(one), decode(_bytes(one), str(one))) for one in files]
        return [Text(str(path), decode(_bytes(path), str(path)))]
    except OSError as error:
        raise TableError(f"{path}: cannot be read: {error.strerror}") from error


def _bytes(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise TableError(f"{path}: no regular file")
    with path.open("rb") as file:
        return file.read(_LARGEST + 1)


def decode(data: bytes, where: str) -> str:
    """Bytes as text: by its byte order mark, else UTF-16 where every other byte is 0, else UTF-8, else Windows-1252."""
    if len(data) > _LARGEST:
        raise TableError(f"{where}: larger than {_LARGEST >> 20} MiB: no table of measurements")
    kind = next((kind for magic, kind in _KINDS.items() if data.startswith(magic)), "")
    if kind:
        raise TableError(f"{where}: {kind}, not text: save the table as CSV")
    head = data[:4000]
    encodings = ["utf-8-sig", "cp1252", "latin-1"]
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encodings = ["utf-16"]
    elif head.count(0) > len(head) // 4:
        encodings = ["utf-16-be" if head[::2].count(0) > head[1::2].count(0) else "utf-16-le"]
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" in text:
            break
        return text
    raise TableError(f"{where}: not a text file: save the table as CSV in UTF-8")


def grids(file: Text) -> list[Grid]:
    """The tables in a text: of JSON, HTML, LaTeX, Markdown, separated values, or aligned columns, whichever it is.

    Raises TableError for an empty one.
    """
    text = file.text.strip()
    if not text:
        raise TableError(f"{file.where}: it is empty")
    if text[0] in "[{" and (rows := _json(text)) is not None:
        return [_json_grid(file.where, rows)]
    if re.search(r"<table\b", text, re.I):
        return _html(file)
    if re.search(r"\\begin\{tabular|\\\\\s*(?:\\hline)?\s*$", text, re.M) and text.count("&") > 2:
        return [_latex(file)]
    markdown = _markdown(file)
    if markdown:
        return markdown
    return [_separated(file) or _aligned(file)]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        pass
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (json.JSONDecodeError, RecursionError):
        return None


def _json_grid(where: str, content: Any) -> Grid:
    """A list of objects, or an object of lists (also one inside another object), as a grid; its lines count objects."""
    while isinstance(content, dict) and not _columns(content):
        inner = [value for value in content.values() if isinstance(value, list | dict) and value]
        if len(inner) != 1:
            break
        content = inner[0]
    if isinstance(content, dict) and _columns(content):
        names = [str(name) for name in content]
        rows: list[Sequence[Any]] = [*zip(*content.values(), strict=True)]
    elif isinstance(content, dict) and content and all(isinstance(one, dict) for one in content.values()):
        rows, names = _flat_rows([{"name": name, **one} for name, one in content.items()])
    elif isinstance(content, list) and content and all(isinstance(one, dict) for one in content):
        rows, names = _flat_rows(content)
    elif isinstance(content, list) and content and all(isinstance(one, list) for one in content):
        names, rows = [_cell(cell) for cell in content[0]], content[1:]
    else:
        raise TableError(f"{where}: JSON, but neither a list of objects nor an object of lists of one length")
    cells = [tuple(names), *(tuple(_cell(cell) for cell in row) for row in rows)]
    return Grid(where, "JSON", tuple(cells), tuple(range(len(cells))), decimal=".")


def _flat_rows(content: Sequence[dict[str, Any]]) -> tuple[list[Sequence[Any]], list[str]]:
    flat = [dict(_flat(one)) for one in content]
    names = [*dict.fromkeys(name for one in flat for name in one)]
    return [[one.get(name) for name in names] for one in flat], names


def _flat(content: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name} ")
        else:
            yield f"{before}{name}", value


def _columns(content: dict[str, Any]) -> bool:
    lists = [value for value in content.values() if isinstance(value, list)]
    return bool(lists) and len(lists) == len(content) and len({len(value) for value in lists}) == 1


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def markup(text: str) -> str:
    """A cell without the markup of Markdown, HTML or LaTeX."""
    text = re.sub(r"<sup>.*?</sup>|\\footnote\{[^}]*\}|\[\^\w+\]", "", text)
    text = html.unescape(re.sub(r"<br\s*/?>", " ", text))
    text = re.sub(r"</?[a-zA-Z][^>]*>", "", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\*\*|__|``?|~~", "", text)
    text = re.sub(r"^\s*([*_])(.*)\1\s*$", r"\2", text)
    return re.sub(r"\s+", " ", text).strip()


def _markdown(file: Text) -> list[Grid]:
    """The tables of Markdown: rows of cells between '|', of which the second has dashes alone; titles stand above."""
    tables: list[Grid] = []
    rows: list[tuple[str, ...]] = []
    lines: list[int] = []
    title = ""
    headings: dict[int, str] = {}

    def close() -> None:
        dashes = [at for at, row in enumerate(rows) if all(re.fullmatch(r":?-+:?", cell) for cell in row)]
        if rows and dashes and dashes[0] <= 2:
            pairs = [(row, line) for at, (row, line) in enumerate(zip(rows, lines, strict=True)) if at not in dashes]
            tables.append(Grid(file.where, "Markdown", *_transposed(pairs), title=title))
        rows.clear()
        lines.clear()

    for number, line in enumerate(file.lines, 1):
        if line.count("|") - line.count("\\|") >= 1:
            cells = re.split(r"(?<!\\)\|", line.strip())
            cells = cells[1:] if line.strip().startswith("|") else cells
            cells = cells[:-1] if re.search(r"(?<!\\)\|$", line.strip()) else cells
            rows.append(tuple(markup(cell.replace("\\|", "|")) for cell in cells))
            lines.append(number)
            continue
        close()
        if heading := re.match(r"\s*(?:(#+)\s+(.*?)\s*#*|\*\*(.*?)\*\*:?)\s*$", line):
            level = len(heading[1]) if heading[1] else 7
            headings = {above: text for above, text in headings.items() if above < level}
            headings[level] = markup(heading[2] or heading[3])
            over = [text for above, text in headings.items() if 2 < above < level][-1:]
            title = ", ".join([*over, headings[level]])
    close()
    return tables


def _transposed(rows: Iterable[tuple[tuple[str, ...], int]]) -> tuple[tuple[tuple[str, ...], ...], tuple[int, ...]]:
    pairs = list(rows)
    return tuple(row for row, _ in pairs), tuple(line for _, line in pairs)


@dataclass
class _Rows(HTMLParser):
    """The rows of each <table>, with cells that span rows or columns repeated."""

    tables: list[tuple[list[tuple[str, ...]], list[int], str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.cells: list[str] | None = None
        self.text: list[str] | None = None
        self.spans: dict[int, tuple[int, str]] = {}
        self.across, self.down, self.title = 1, 1, ""
        self.heading = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "table":
            self.tables.append(([], [], self.title))
            self.spans = {}
        elif tag in ("h1", "h2", "h3", "h4", "h5", "caption"):
            self.heading, self.text = True, []
        elif tag == "tr" and self.tables:
            self._end_row()
            self.cells, self.line = [], self.getpos()[0]
        elif tag in ("td", "th") and self.cells is not None:
            self._end_cell()
            self.text = []
            self.across, self.down = (_whole(values.get(name)) for name in ("colspan", "rowspan"))
        elif tag == "br" and self.text is not None:
            self.text.append(" ")
        elif tag == "sup" and self.text is not None:
            self.text.append("\0")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._end_cell()
        elif tag in ("tr", "table"):
            self._end_row()
        elif self.heading and self.text is not None and tag in ("h1", "h2", "h3", "h4", "h5", "caption"):
            self.title, self.heading = _joined(self.text), False
            if tag == "caption" and self.tables:
                self.tables[-1] = (*self.tables[-1][:2], self.title)
            self.text = None
        elif tag == "sup" and self.text is not None:
            text = "".join(self.text)
            self.text = [text[: text.rfind("\0")] if "\0" in text else text]

    def handle_data(self, data: str) -> None:
        if self.text is not None:
            self.text.append(data)

    def _fill(self) -> None:
        assert self.cells is not None
        while (here := self.spans.get(len(self.cells))) and here[0] > 0:
            self.spans[len(self.cells)] = (here[0] - 1, here[1])
            self.cells.append(here[1])

    def _end_cell(self) -> None:
        if self.cells is None or self.text is None:
            return
        self._fill()
        text = _joined(self.text)
        for _ in range(self.across):
            self.spans[len(self.cells)] = (self.down - 1, text)
            self.cells.append(text)
        self.text = None

    def _end_row(self) -> None:
        self._end_cell()
        if self.cells is not None and self.tables:
            self._fill()
            self.tables[-1][0].append(tuple(self.cells))
            self.tables[-1][1].append(self.line)
        self.cells = None


def _joined(parts: Sequence[str]) -> str:
    return markup("".join(parts).replace("\0", ""))


def _whole(text: str | None) -> int:
    return min(int(text), 1000) if text and text.isdecimal() and int(text) else 1


def _html(file: Text) -> list[Grid]:
    parser = _Rows()
    parser.feed(file.text)
    parser.close()
    return [Grid(file.where, "HTML", tuple(rows), tuple(lines), title) for rows, lines, title in parser.tables if rows]


_RULE = r"\\(?:hline|toprule|midrule|bottomrule|cline\{[^}]*\}|cmidrule(?:\([^)]*\))?\{[^}]*\})"


def _latex(file: Text) -> Grid:
    """The rows of a LaTeX table: cells between '&', which \\multicolumn repeats."""
    body = re.sub(r"(?<!\\)%.*", "", "\n".join(file.lines))
    rows, lines, passed = [], [], 0
    for part in re.split(r"(\\\\(?:\[[^\]]*\])?)", body):
        text = re.split(rf"{_RULE}|\\begin\{{tabular\}}\{{[^}}]*\}}", part)[-1].lstrip()
        if "&" in text:
            rows.append(tuple(cell for one in re.split(r"(?<!\\)&", text) for cell in _latex_cell(one)))
            lines.append(body[: passed + len(part) - len(text)].count("\n") + 1)
        passed += len(part)
    return Grid(file.where, "LaTeX", tuple(rows), tuple(lines))


_LATEX_CHARACTERS = {
    r"\times": "×", r"\pm": "±", r"\%": "%", r"\,": "", "~": " ", r"\#": "#", r"\_": "_",
}  # fmt: skip


def _latex_cell(text: str) -> list[str]:
    text = text.strip()
    spanned = re.fullmatch(r"\\multicolumn\{(\d+)\}\{[^}]*\}\{(.*)\}", text, re.S)
    times, text = (_whole(spanned[1]), spanned[2]) if spanned else (1, text)
    text = re.sub(r"\\multirow\{[^}]*\}\{[^}]*\}\{(.*)\}", r"\1", text)
    for command, character in _LATEX_CHARACTERS.items():
        text = text.replace(command, character)
    for _ in range(3):
        text = re.sub(r"\\[a-zA-Z]+\{([^{}]*)\}", r"\1", text)
    return [markup(re.sub(r"\\[a-zA-Z]+|[${}]", "", text))] * times


def _separated(file: Text) -> Grid | None:
    """Separated values; None where no separator stands in two lines or more alike."""
    text = "\n".join(file.lines)
    skipped, declared = 0, re.match(r"sep=(.)\n", text)
    if declared:
        text, skipped = text[declared.end() :], 1
    separator = declared[1] if declared and declared[1] in SEPARATORS else _separator(text)
    if not separator:
        return None
    rows, lines, before = [], [], skipped
    reader = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=separator != "\t", strict=True)
    try:
        for row in reader:
            first = before + 1
            before = reader.line_num + skipped
            if any(cell.strip() for cell in row):
                rows.append(tuple(markup(cell) for cell in row))
                lines.append(first)
    except csv.Error as error:
        raise TableError(f"{file.where}, line {before + 1}: not readable as CSV: {error}") from error
    if separator == "|" and all(not row[0] and not row[-1] for row in rows):
        rows = [row[1:-1] for row in rows]
    decimal = "." if separator == "," and not _quoted_commas(rows) else ""
    return Grid(file.where, f"separated by {SEPARATORS[separator]}", tuple(rows), tuple(lines), decimal=decimal)


def _quoted_commas(rows: Sequence[Sequence[str]]) -> bool:
    return any(re.search(r"\d,\d", cell) for row in rows for cell in row)


def _separator(text: str) -> str:
    """The separator that most lines share, as many of it in each; "" for none."""
    lines = [line for line in text.split("\n") if line.strip()][:200]
    best, score = "", 0.0
    for separator in SEPARATORS:
        counts = [len(next(csv.reader([line], delimiter=separator), [])) - 1 for line in lines]
        split = [count for count in counts if count]
        if not split:
            continue
        usual = max(set(split), key=split.count)
        regular = sum(count == usual for count in counts) / len(lines)
        its = regular * (1 + min(usual, 20) / 100) * (1.0 if separator != "," else 0.9)
        if its > score:
            best, score = separator, its
    aligned = best == "\t" and any(re.search(r"\t\t|\t {2,}|^\s+\S", line) for line in lines)
    return "" if score < 0.3 or (aligned and not _cells_fit(lines)) else best


def _cells_fit(lines: Sequence[str]) -> bool:
    """Whether tabs alone separate the cells: as many in each line."""
    return len({line.count("\t") for line in lines}) == 1


_WORD = r"[^\s\0]+"
_PHRASE = rf"{_WORD}(?: {_WORD})*"  # words with single spaces between them


def _tabs_out(line: str) -> str:
    """A line with each tab as so many NULs as it takes to the next multiple of 8: cells end there."""
    parts = []
    for part in line.split("\t"):
        parts.append(part + "\0" * (8 - len(part) % 8))
    return "".join(parts).rstrip("\0")


def _aligned(file: Text) -> Grid:
    """Columns of text that stand under each other, separated by spaces or tabs."""
    lines = [(number, _tabs_out(line).rstrip()) for number, line in enumerate(file.lines, 1)]
    lines = [(number, line) for number, line in lines if re.search(r"\w", line)]
    for pattern in (_PHRASE, _WORD):
        rows = [[cell[0] for cell in re.finditer(pattern, line)] for _, line in lines]
        lengths = {len(row) for row in rows}
        if len(lengths) == 1 and lengths.pop() > 1:
            return _text_grid(file, rows, [number for number, _ in lines])
    numbered = [line for _, line in lines if sum(has_value(cell) for cell in line.split()) * 2 > len(line.split())]
    pattern = next(
        (one for one in (_PHRASE, _WORD) if max((len(_spans(one, line)) for line in numbered), default=0) > 1), _WORD
    )
    edges = _edges(_spans(pattern, line) for line in numbered or [line for _, line in lines])
    rows = [_placed(line, edges) for _, line in lines]
    return _text_grid(file, rows, [number for number, _ in lines])


def _spans(pattern: str, line: str) -> list[tuple[int, int, str]]:
    return [(cell.start(), cell.end(), cell[0]) for cell in re.finditer(pattern, line)]


def _placed(line: str, edges: Sequence[tuple[int, int]]) -> list[str]:
    """The cells of a line: in order where there are as many as columns, else each word in the nearest column."""
    for pattern in (_PHRASE, _WORD):
        cells = [text for *_, text in _spans(pattern, line)]
        if len(cells) == len(edges):
            return cells
    cells = [""] * len(edges)
    for start, end, text in _spans(_WORD, line):
        at = max(range(len(edges)), key=lambda column: _overlap(edges[column], (start, end)))
        cells[at] = f"{cells[at]} {text}".strip()
    return cells


def _text_grid(file: Text, rows: Sequence[Sequence[str]], lines: Sequence[int]) -> Grid:
    return Grid(file.where, "aligned text", tuple(tuple(map(markup, row)) for row in rows), tuple(lines))


def _edges(rows: Iterable[Sequence[tuple[int, int, str]]]) -> list[tuple[int, int]]:
    """Return where columns begin and end: overlapping cells of all rows joined."""
    edges: list[tuple[int, int]] = []
    for start, end in sorted((start, end) for row in rows for start, end, _ in row):
        if edges and start < edges[-1][1]:
            edges[-1] = (edges[-1][0], max(edges[-1][1], end))
        else:
            edges.append((start, end))
    return edges


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> float:
    return min(one[1], other[1]) - max(one[0], other[0])
