from pathlib import Path

import pytest

from analysis import TableError
from analysis.explain import tidy
from analysis.table import loading


class TestReading:
    def csv(self, tmp_path: Path, text: str) -> Path:
        path = tmp_path / "points.csv"
        path.write_text(text)
        return path

    def test_synonyms_and_unused_columns(self, tmp_path):
        points, notes = tidy.read(
            self.csv(tmp_path, "gpus,steps_per_worker,batch_per_gpu,train_s,total_s\n1,10,8,3.5,9\n2,5,8,2,9\n")
        )
        assert points["wall_s"].tolist() == [3.5, 2]
        assert notes == [
            "columns not used: total_s",
            "no measured speed is given: there is nothing to compare the implied speed with",
        ]

    def test_a_row_with_a_gap_is_left_out_and_named(self, tmp_path):
        points, notes = tidy.read(
            self.csv(
                tmp_path,
                "model,ranks,steps_per_rank,batch_per_rank,wall_s,images_per_s_per_rank\na,1,10,8,3.5,9\na,2,,8,2,0\n"
                "a,4,3,8,1,0\n",
            )
        )
        assert points["ranks"].tolist() == [1, 4]
        assert notes == [
            "left out: a, 2 ranks: no steps_per_rank",
            "speed not used: a, 4 ranks: 0 images/s beside 1 s of training",
        ]

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("ranks,steps_per_rank,batch_per_rank,wall_s\n1,10,8,-3\n", "wall_s: -3 given, must be more than 0"),
            ("ranks,steps_per_rank,batch_per_rank,wall_s\n1,10,8,fast\n", "wall_s: 'fast' is not a number"),
            ("ranks,steps_per_rnk,batch_per_rank,wall_s\n1,10,8,3\n", "column 'steps_per_rank' is missing"),
            ("ranks,steps_per_rank,batch_per_rank,wall_s\n1,,8,3\n", "no row has all of"),
            ("ranks,steps_per_rank,batch_per_rank,wall_s\n1,10,8,3\n1,10,8,3\n", "duplicate point: the curve, 1 ranks"),
            ("", "not a readable CSV file"),
        ],
    )
    def test_what_cannot_be_used_is_said(self, tmp_path, text, says):
        path = self.csv(tmp_path, text)
        with pytest.raises(TableError, match=says) as error:
            tidy.read(path)
        assert str(path) in str(error.value)

    def test_the_published_table_gives_three_curves(self):
        points, notes = tidy.points(loading.published().query("report == '000'"), "report 000")
        assert {name.split()[-1]: len(rows) for name, rows in tidy.curves(points)} == {
            "vgg19": 6,
            "resnet101v2": 6,
            "inceptionv4": 5,
        }
        assert notes == ["speed not used: inceptionv4, 16 ranks: 0 images/s beside 21.11 s of training"]
