"""The columns and quantities of the tidy table, with one row for each number, and the checks of its cells."""

import difflib
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from analysis import TableError
from analysis.documents import counted
from train.record.record import ROLES


@dataclass(frozen=True)
class Column:
    """A column of a table: values from `minimum` on, and greater than `above`."""

    name: str
    kind: Literal["text", "integer", "number", "flag"]
    required: bool = True  # whether the column must exist
    blank: bool = True  # whether a cell may be empty: "" in text, <NA> or NaN in numbers
    minimum: float | None = None
    above: float | None = None
    allowed: tuple[str, ...] = ()


SOURCES = ("published", "local")
KINDS = ("measured", "stated", "planned", "predicted", "setup", "control")
REPORTS = ("000", "001", "002", "003", "004")
DEVICES = ("cpu", "gpu")

COLUMNS = (
    Column("source", "text", blank=False, allowed=SOURCES),
    Column("report", "text", allowed=REPORTS),
    Column("place", "text", blank=False),
    Column("experiment", "text"),
    Column("run", "text"),
    Column("model", "text"),
    Column("dataset", "text"),
    Column("device", "text", allowed=DEVICES),
    Column("gpu", "text"),
    Column("machine", "text"),
    Column("nodes", "integer", above=0),
    Column("ranks_per_node", "integer", above=0),
    Column("threads_per_rank", "integer", minimum=0),  # 0: as many as TensorFlow chooses
    Column("ranks", "integer", above=0),
    Column("batch_per_rank", "integer", above=0),
    Column("global_batch", "integer", above=0),
    Column("repeat", "integer", minimum=0),
    Column("quantity", "text", blank=False),
    Column("value", "number", blank=False),
    Column("unit", "text", blank=False),
    Column("kind", "text", blank=False, allowed=KINDS),
    Column("note", "text"),
    Column("half_unit", "number", required=False, minimum=0),  # largest rounding error of `value`; blank: not known
)

# Only local records have these. All points and repeats of one curve share `series`; `arms` is shared by the runs that
# differ, if at all, in the keys in which the arms of their experiment differ (analysis/table/identity.py).
LOCAL_COLUMNS = (
    Column("record", "text", blank=False),
    Column("series", "text", blank=False),
    Column("arms", "text", blank=False),
    Column("arm", "text"),
    Column("role", "text", allowed=ROLES),  # of the arm
    Column("axis", "text"),  # the dotted key that varies along the curve; blank: none
    Column("axis_value", "number"),  # blank: null in the configuration, as for "no limit"
    Column("swept", "text"),  # the values of the other swept keys, in words; not the model
    Column("kept", "text", allowed=("batch_per_rank", "global_batch")),  # along the curve; blank: the batch varies
    Column("seed", "integer", minimum=0),
    Column("cores_shared", "flag"),
    Column("server_cores", "integer", minimum=0),  # of parameter servers, beside those of the ranks
    Column("started_at", "text"),
    Column("generation", "integer", minimum=0),
    Column("measure", "text"),
    Column("backend", "text"),
    Column("allreduce", "flag"),
    Column("precision", "text"),
    Column("epoch", "integer", minimum=0),
    Column("operations", "text"),  # carried the data between ranks: gloo, mpi, nccl, grpc, memory
    Column("cycle_time_ms", "number", above=0),
    Column("gradients", "text"),  # how they are exchanged: flat, grouped, separate
    Column("message_bytes", "integer", above=0),
    Column("round", "integer", minimum=0),  # of a launch that measures several points in turn
    Column("step", "integer", minimum=0),  # counted from 1 over the whole run
    Column("time_s", "integer", minimum=0),  # since the launch of the job
    Column("optimizer", "text"),
    Column("learning_rate", "number", minimum=0),  # of the whole job, scaled with its ranks
    Column("image_size", "integer", above=0),
    Column("parameters", "integer", above=0),
    Column("cpu_quota_per_node", "number", above=0),  # of an emulated node
    Column("link_mbit_per_s", "number", above=0),  # of an emulated node; blank: not limited
    Column("max_nodes", "integer", minimum=1),  # like these on the machine; blank: each node is a host
    Column("flat_within_fraction", "number", above=0),  # the bound of control_off
    Column("assumed", "text"),  # keys of the configuration that the report behind the experiment does not state
    Column("control_off", "number"),  # by which fraction its control was faster than one node alone
    Column("control_nodes", "integer", above=0),  # of that control
)
LOCAL_NAMES = tuple(column.name for column in COLUMNS + LOCAL_COLUMNS)  # of a table of local records


@dataclass(frozen=True)
class Quantity:
    """A measured quantity: its unit, and the range of possible values."""

    unit: str
    zero: bool = False  # whether 0 is possible
    maximum: float = np.inf

    def possible(self, value: float) -> bool:
        """Return whether a measurement can have this value."""
        return 0 <= value <= self.maximum and (value != 0 or self.zero)


# Names by quantity, separated by spaces.
_NAMES = {
    # A report prints a speed of 0.00 for a run that trained: the table keeps it, figures and the audit name it.
    Quantity("images/s", zero=True): """
        images_per_s images_per_s_per_rank compute_limit_images_per_s link_limit_images_per_s""",
    Quantity("s"): "init_s wall_s job_s epoch_s time_to_stable_s allreduce_s",
    Quantity("steps"): "steps_per_rank_planned",
    Quantity("steps", zero=True): "steps_per_rank",
    Quantity("images"): "images best_global_batch flat_from_global_batch effective_batch",
    Quantity("epochs"): "epochs_planned epochs_to_stable epochs_to_stable_per_doubling",
    Quantity("fraction", zero=True, maximum=1.0): """
        train_accuracy validation_accuracy validation_accuracy_loss_fraction train_accuracy_spread_fraction
        validation_accuracy_spread_fraction job_s_improvement_fraction epoch_s_decrease_fraction gpu_use_fraction
        dataset_validation_fraction""",
    # An efficiency is above 1 if the speedup is beyond ideal.
    Quantity("fraction"): """
        efficiency_throughput efficiency_wall_time efficiency_job_time median_efficiency_throughput""",
    # A clock's ticks can make the first a little more than 1. The second is of one core, where others may take several.
    Quantity("fraction", zero=True): "cpu_use_fraction disturbance_fraction",
    Quantity("1"): "learning_rate_per_rank",
    Quantity("1", zero=True): "train_loss validation_loss step_loss",
    Quantity("classes", zero=True): "validation_mean_absolute_error",  # years, if a class is a year of age
    Quantity("x"): """
        speedup_throughput speedup_wall_time speedup_job_time median_speedup_throughput ratio_synthetic_to_real
        ratio_batch_64_to_32 ratio_p100_to_k80 ratio_resnet50_to_inceptionv3 median_ratio_synthetic_to_real
        median_ratio_batch_64_to_32 median_ratio_p100_to_k80 median_ratio_resnet50_to_inceptionv3""",
    Quantity("J"): "joules_per_image gpu_joules_per_image",
    Quantity("bytes/s"): "tcp_stream_bytes_per_s tcp_ring_bytes_per_s memory_copy_bytes_per_s",
    Quantity("bytes"): "model_bytes memory_bytes dataset_bytes",
    Quantity("bytes", zero=True): "peak_memory_bytes gpu_memory_bytes",
    # `ranks_as_printed`: a label beside values; `ranks` has the ranks of these values.
    Quantity("count"): """
        parameters dataset_images dataset_train_images dataset_validation_images dataset_classes
        dataset_images_per_class_min dataset_images_per_class_max largest_ranks ranks_as_printed""",
    Quantity("count", zero=True): "distributed_optimizer_lines",
    Quantity("images per class"): "dataset_images_per_class_mean",
    Quantity("pixels"): "dataset_image_pixels_mean",
}
QUANTITIES = {name: quantity for quantity, names in _NAMES.items() for name in names.split()}


# Units of numbers that are counted, not rounded, if they are printed to the last unit.
_COUNTED = ("count", "steps", "epochs", "images")


def half_unit(text: str, unit: str) -> float:
    """Return half a unit of the last printed digit: 0.05 for "7.2", 5e6 for "2.59e9"; 0 for counts, NaN for words.

    Digits are those of the text: "0.6760" has four decimals. A number in thousands or millions is written so: "460e3".
    """
    try:
        exponent = Decimal(text.strip()).as_tuple().exponent
    except InvalidOperation:
        return np.nan
    if not isinstance(exponent, int):  # of "nan", "inf"
        return np.nan
    return 0.0 if unit in _COUNTED and exponent == 0 else 0.5 * 10.0**exponent


@functools.cache
def quantity(name: str) -> Quantity | None:
    """Return the quantity called `name`, or None. Any `phase_<name>_s` is a time, 0 included."""
    if name.startswith("phase_") and name.endswith("_s"):
        return Quantity("s", zero=True)
    return QUANTITIES.get(name)


def _like(name: str, allowed: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(allowed), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _row(cells: pd.Series | pd.DataFrame, position: int | np.integer) -> str:
    return f"line {position + 2}" if isinstance(cells.index, pd.RangeIndex) else f"row {cells.index[int(position)]}"


def _bad_cells(column: Column, cells: pd.Series, wrong: pd.Series, problem: str) -> list[str]:
    """Return a line for each wrong cell."""
    texts = [f"{cell:g}" if isinstance(cell, float) else f"'{cell}'" for cell in cells[wrong]]
    return [
        f"{_row(cells, i)}: {column.name}: {cell} {problem}"
        for i, cell in zip(np.flatnonzero(wrong), texts, strict=True)
    ]


def _name_columns(frame: pd.DataFrame, columns: Sequence[Column]) -> list[str]:
    names = [column.name for column in columns]
    unknown = [str(name) for name in frame.columns if name not in names]
    missing = [column.name for column in columns if column.required and column.name not in frame.columns]
    problems = [f"column '{name}' is missing" for name in missing]
    problems += [f"column '{name}' is not known{_like(name, names)} (allowed: {', '.join(names)})" for name in unknown]
    problems += [f"duplicate column '{name}'" for name in frame.columns[frame.columns.duplicated()].unique()]
    return problems


def _text(column: Column, cells: pd.Series, empty: pd.Series) -> tuple[pd.Series, list[str]]:
    cells = cells.fillna("").astype(str)
    if not column.allowed:
        return cells, []
    wrong = ~cells.isin([*column.allowed, ""])
    return cells, _bad_cells(column, cells, wrong, f"given, allowed: {', '.join(column.allowed)}")


def _blank(cells: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(cells):
        return cells.isna()
    spaces = [isinstance(cell, str) and not cell.strip() for cell in cells.to_numpy(object)]
    return cells.isna() | pd.Series(spaces, cells.index, bool)


def _allowed(column: Column) -> str:
    """Return the allowed values of a column of numbers, for a message."""
    above = "" if column.above is None else f" above {column.above:g}"
    least = "" if column.minimum is None else f" of at least {column.minimum:g}"
    return f"; allowed: {'whole ' * (column.kind == 'integer')}numbers{above}{least}"


def _number(column: Column, cells: pd.Series, empty: pd.Series) -> tuple[pd.Series, list[str]]:
    numbers = pd.to_numeric(cells.mask(empty), errors="coerce").astype(float)
    wrong, allowed = ~empty & ~np.isfinite(numbers), _allowed(column)
    problems = _bad_cells(column, cells, wrong, f"is not a number{allowed}")
    if column.kind == "integer":
        broken = numbers.notna() & (numbers % 1 != 0) & ~wrong
        problems += _bad_cells(column, cells, broken, f"is not a whole number{allowed}")
        numbers = numbers.mask(broken | wrong)
    if column.minimum is not None:
        problems += _bad_cells(column, numbers, numbers < column.minimum, f"given, must be at least {column.minimum:g}")
    if column.above is not None:
        problems += _bad_cells(column, numbers, numbers <= column.above, f"given, must be more than {column.above:g}")
    return numbers.astype("Int64") if column.kind == "integer" else numbers, problems


def _flag(column: Column, cells: pd.Series, empty: pd.Series) -> tuple[pd.Series, list[str]]:
    flags = cells.astype(object).map({True: True, False: False, "True": True, "False": False}).astype("boolean")
    return flags, _bad_cells(column, cells, flags.isna() & ~empty, "is not True or False")


_CONVERT = {"text": _text, "integer": _number, "number": _number, "flag": _flag}
# The cells of a column without any value.
_NOTHING = {"text": "", "integer": pd.NA, "number": np.nan, "flag": pd.NA}
DTYPES = {"text": "str", "integer": "Int64", "number": "float64", "flag": "boolean"}


def _raise(name: str, problems: list[str]) -> None:
    if problems:
        lines = problems[:20] + ([f"and {len(problems) - 20} more"] if len(problems) > 20 else [])
        raise TableError("\n".join([f"{name}: {counted(len(problems), 'problem')}", *lines]))


def conform(frame: pd.DataFrame, columns: Sequence[Column], name: str) -> pd.DataFrame:
    """Return `frame` with those of `columns` that it has, in their order and with their types; `name` is for errors.

    Text cells become str ("" if empty), integers Int64, numbers float64 (NaN if empty), flags boolean.
    Raises TableError listing every problem: a missing, unknown, misspelt or duplicate column; a cell that is not a
    number, not whole, out of range, not among the allowed words, or empty although a value is required.
    """
    _raise(name, _name_columns(frame, columns))
    problems: list[str] = []
    converted = {}
    for column in columns:
        if column.name not in frame.columns:
            continue
        empty = _blank(frame[column.name])
        if empty.all():
            converted[column.name] = pd.Series(_NOTHING[column.kind], frame.index, DTYPES[column.kind])
        else:
            converted[column.name], bad_cells = _CONVERT[column.kind](column, frame[column.name], empty)
            problems += bad_cells
        if not column.blank:
            problems += [f"{_row(frame, i)}: {column.name} is empty" for i in np.flatnonzero(empty)]
    _raise(name, problems)
    return pd.DataFrame(converted, index=frame.index)


def read_csv(path: Path) -> pd.DataFrame:
    """Return the CSV file `path`, checked against COLUMNS. Raises TableError naming the file and all problems."""
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True)
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TableError(f"{path}: not a readable CSV file: {getattr(error, 'strerror', None) or error}") from error
    return conform(with_half_units(frame), COLUMNS, str(path))


def with_half_units(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of text with the half units of its values, if it has values and units, and no half units."""
    if "half_unit" in frame or not {"value", "unit"} <= {*frame}:
        return frame
    return frame.assign(half_unit=[half_unit(*cells) for cells in zip(frame["value"], frame["unit"], strict=True)])


def check(table: pd.DataFrame, source: str = "table") -> pd.DataFrame:
    """Return the tidy `table` with its columns in order and of their types; the columns of local records are optional.

    Raises TableError naming each row whose quantity is unknown, whose unit is not that of the quantity, whose value is
    impossible, or which is a duplicate.
    """
    extra = tuple(Column(**{**column.__dict__, "required": False}) for column in LOCAL_COLUMNS)
    table = conform(table, COLUMNS + extra, source)
    problems = []
    for name in table["quantity"].unique():
        rows = table[table["quantity"] == name]
        definition = quantity(name)
        if definition is None:
            problems.append(f"quantity '{name}' is not known{_like(str(name), QUANTITIES)}")
            continue
        own = rows["report"].eq("") & rows["unit"].str.contains("/") & (definition.unit == "images/s")  # as tokens/s
        units = sorted(set(rows.loc[~own, "unit"]) - {definition.unit})
        if units:
            problems.append(f"{name}: unit {', '.join(map(repr, units))} given, must be '{definition.unit}'")
        bad = rows[~rows["value"].map(definition.possible)]
        problems += [
            f"{location}: {name}: {value:g} {definition.unit} is impossible"
            for location, value in zip(bad["place"], bad["value"], strict=True)
        ]
    key = [name for name in table.columns if name not in ("value", "note", "half_unit")]
    for row in table[table.duplicated(key)].to_dict("records"):
        problems.append(f"{row['place']}: duplicate {row['quantity']} of {row['model'] or row['run'] or 'it'}")
    _raise(source, problems)
    return table
