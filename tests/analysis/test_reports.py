import pandas as pd
import pytest

from analysis import reports
from analysis.study import Study


@pytest.fixture(scope="module")
def result():
    return reports.recompute(Study().published)


@pytest.mark.slow
def test_every_cell_of_the_spreadsheet_comes_out_to_the_printed_digit(result):
    cells = result[(result["report"] == "003") & result["place"].str.startswith("row ")]
    assert len(cells) == 2 * 4 * 17 + 2 * 4 * 9 + 2 * (4 * 8 + 1)
    digits = cells["unit"].map({"x": 2, "fraction": 4})
    for stated, value, n in zip(cells["stated"], cells["computed"], digits, strict=True):
        assert f"{value:.{n}f}" == f"{stated:.{n}f}"


@pytest.mark.slow
def test_every_stated_derived_number_has_its_line(result):
    table = Study().published
    derived_words = ("speedup", "efficiency", "ratio", "median", "improvement", "decrease", "spread", "loss")
    stated = table[
        (table["kind"] == "stated") & table["quantity"].map(lambda name: any(word in name for word in derived_words))
        | (table["kind"] == "predicted")
    ]
    lines = result[["report", "place", "quantity", "model", "run"]].value_counts()
    for row in stated.to_dict("records"):
        assert lines[row["report"], row["place"], row["quantity"], row["model"], row["run"]] >= 1


def only(result, **where):
    (row,) = result[(result[list(where)] == pd.Series(where)).all(axis=1)].to_dict("records")
    return row


@pytest.mark.parametrize(
    ("where", "expected", "agrees"),
    [
        # 136.51 / 19.4, 66.25 / 8.82
        ({"report": "001", "place": "text, part 5 (figure 5)", "model": "inceptionv3"}, 7.0366, True),
        ({"report": "001", "place": "text, part 5 (figure 5)", "model": "vgg16"}, 7.5113, True),
        # 671.09 / 63.88, of figure 4: another run, and no repeat on a GPU shows how far runs differ
        ({"report": "001", "place": "text, part 5 (figure 6)", "model": "vgg16"}, 10.5055, None),
        # 5:19 to 3:25, 11 s to 5 s
        ({"report": "004", "quantity": "job_s_improvement_fraction"}, 114 / 319, False),
        ({"report": "004", "quantity": "epoch_s_decrease_fraction"}, 6 / 11, False),
        # 15 of 30 epochs of 1:38:30
        ({"report": "004", "quantity": "time_to_stable_s", "run": "model 3"}, 2955, True),
        # 4 epochs more on T4 and 5 on V100: 4.5, and from 22.5 between 4 and 8 V100 to 16 of them
        ({"report": "004", "quantity": "epochs_to_stable_per_doubling"}, 4.5, None),
        ({"report": "004", "quantity": "epochs_to_stable", "run": "prediction"}, 29.25, None),
        # 2594 / 5910 and 1387 / 2502: a factor of 0.4933 at each doubling, from 1862.9 s between 4 and 8 V100
        ({"report": "004", "quantity": "job_s", "run": "prediction"}, 645.37, None),
        # 190 / 202, both in whole images/s
        ({"report": "000", "quantity": "efficiency_throughput", "place": "text, Results", "model": ""}, 0.94059, None),
        ({"report": "004", "quantity": "dataset_images_per_class_mean"}, 30607 / 257, True),
        ({"report": "001", "quantity": "effective_batch", "ranks": 8}, 32, False),
        # 193.45 / 18.32, by wall time on 16 GPUs; only plotted
        ({"report": "000", "quantity": "speedup_wall_time", "model": "vgg19", "ranks": 16}, 10.5595, None),
        # 16 x 164.77 / 170.24
        ({"report": "000", "quantity": "speedup_throughput", "model": "vgg19", "ranks": 16}, 15.4859, None),
        # 4 x 138,357,544
        ({"report": "001", "quantity": "model_bytes"}, 553_430_176, False),
    ],
)
def test_numbers_worked_by_hand(result, where, expected, agrees):
    row = only(result, **where)
    assert row["computed"] == pytest.approx(expected, rel=1e-4)
    assert pd.isna(row["agrees"]) if agrees is None else row["agrees"] == agrees
    if not pd.isna(row["stated"]):
        assert row["difference"] == row["computed"] - row["stated"]
