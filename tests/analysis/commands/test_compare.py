import pytest


def test_two_tables_of_any_kind(json_output, tmp_path):
    """The medians of three repeats: 110.5 over 101 images/s is beyond their scatter of 1; 382 over 382 is not."""
    before, after = tmp_path / "before.csv", tmp_path / "after.md"
    before.write_text("GPUs,img/s\n1,100\n1,102\n1,101\n4,380\n4,384\n4,382\n")
    rows = ((1, 110.5), (1, 111.5), (1, 110), (4, 380), (4, 390), (4, 382), (8, 700))
    after.write_text("|GPUs|Images/s|\n|-|-|\n" + "".join(f"|{n}|{rate}|\n" for n, rate in rows))
    content = json_output("compare", f"A={before}", f"B={after}")
    verdicts = {row["point"]: (row["verdict"], row["ratio"]["value"]) for row in content["comparisons"]}
    assert verdicts["1 rank"] == ("better", pytest.approx(110.5 / 101, rel=1e-4))
    assert verdicts["4 ranks"] == ("not decidable", 1.0)
    assert content["unpaired"] == ["table, 8 ranks: in B only"]
    assert any("'Images/s' -> images_per_s" in line for line in content["left_out"])
