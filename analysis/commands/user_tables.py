"""A user's table as a command reads it: a question is answered on the terminal, and the answer kept beside it."""

import sys
from pathlib import Path

from analysis.user_table import answers, table_contract
from analysis.user_table.answers import Question
from analysis.user_table.table_contract import UserTable
from common.terminal import show


def read_user_table(path: Path, columns: str, keep: bool = False) -> UserTable:
    """Return a user's table. Raises TableError; on a terminal a question is asked, until there is no answer.

    keep: whether what COLUMNS says is kept beside the table; an answer on the terminal is.
    """
    while True:
        try:
            result = table_contract.read_table(path, columns)
            break
        except Question as question:
            if not question.answers or not (sys.stdin.isatty() and sys.stderr.isatty()) or str(path) == "-":
                raise
            columns, keep = _answer(question), True
    if keep and columns.strip() and not columns.strip().isdigit() and path.is_file():
        try:
            show(f"kept for later: {answers.written(path, columns)}", file=sys.stderr)
        except OSError as error:
            show(f"not kept: {answers.beside(path)}: {error.strerror}", file=sys.stderr)
    return result


def _answer(question: Question) -> str:
    """Return the text of COLUMNS of the answer whose number a user types. Raises the question if it is none of them."""
    show(question.text, file=sys.stderr)
    for number, columns in enumerate(question.answers, 1):
        show(f'  {number}  COLUMNS="{columns}"', file=sys.stderr)
    print("number of the answer: ", end="", file=sys.stderr, flush=True)
    text = sys.stdin.readline().strip()
    if not text.isdecimal() or not 1 <= int(text) <= len(question.answers):
        raise question
    return question.answers[int(text) - 1]
