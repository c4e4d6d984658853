import pandas as pd

from analysis import once


def test_a_table_is_used_once_and_another_anew():
    used = []

    @once.a_table
    def values(table):
        used.append(len(table))
        return table["x"].tolist()

    one, other = pd.DataFrame({"x": [1, 2]}), pd.DataFrame({"x": [1, 2, 3]})
    assert [values(one), values(one), values(other), values(other)] == [[1, 2], [1, 2], [1, 2, 3], [1, 2, 3]]
    assert used == [2, 3]
    assert values(one.copy()) == [1, 2]
    assert used == [2, 3, 2]
