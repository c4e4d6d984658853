from analysis import reports
from analysis.table import loading, schema


def test_every_report_and_the_local_records_have_a_title():
    assert list(reports.TITLES) == [*schema.REPORTS, "local"]
    assert set(loading.published()["report"]) == set(schema.REPORTS)
    assert all(reports.TITLES[number].startswith(f"report {number}, ") for number in schema.REPORTS)
    assert len(set(reports.TITLES.values())) == len(reports.TITLES)


def test_a_title_begins_with_the_name_that_the_report_is_called_by():
    names = {number: reports.TITLES[number].split(", ")[1].split(" ")[0].strip(":") for number in schema.REPORTS}
    assert names == {"000": "HackSA", "001": "OSU", "002": "BNL", "003": "spreadsheet", "004": "MSOE"}
