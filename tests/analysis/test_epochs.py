from analysis import epochs
from analysis.table import loading
from tests.helpers.own_records import make_record, save
from train.record.record import Epoch


def test_training_of_a_run_by_hand(tmp_path):
    # The first epoch also traces; accuracy is stable from the third epoch on, after 9 + 2 + 3 s.
    trained = [
        Epoch(number, 10, time_s, 1.0, 0.5, 1.0, accuracy)
        for number, time_s, accuracy in ((1, 9.0, 0.5), (2, 2.0, 0.8), (3, 3.0, 0.895), (4, 2.5, 0.9))
    ]
    save(make_record("accuracy_digits", epochs=trained), tmp_path)
    save(make_record("accuracy_digits", nodes=2, epochs=[Epoch(1, 10, 4.0, 1.0, 0.5)]), tmp_path)  # nothing validated
    result = epochs.training(loading.local(tmp_path).table).set_index("ranks")
    assert result["epoch_s"].to_dict() == {1: 2.75, 2: 4.0}
    assert (result.loc[1, "epochs_to_stable"], result.loc[1, "time_to_stable_s"]) == (3, 14)
    assert result.loc[2, ["epochs_to_stable", "time_to_stable_s"]].isna().all()
