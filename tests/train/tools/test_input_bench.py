from train.tools.input_bench import MODEL, PIPELINE, RESIZE, SCALED, ratio, table


def test_ratios_are_of_the_same_round():
    # A machine that slows down by half in the second round: 80/100 and 40/50 are the same ratio.
    rates = {PIPELINE: [80.0, 40.0], SCALED: [100.0, 50.0], MODEL: [30.0, 15.0]}
    assert ratio(rates, PIPELINE, SCALED) == 0.8
    text = "\n".join(table(rates, "cpu"))
    assert "has 0.80 of decode to size + resize; the aim of 0.8 is reached" in text
    # Medians: 22.5 images/s trained, 60 read: 0.375 cores.
    assert "takes 22.5 images/s: a core that trains needs 0.38 cores of input" in text


def test_an_input_slower_than_the_device_is_called_the_bottleneck():
    text = "\n".join(table({RESIZE: [200.0], PIPELINE: [100.0], MODEL: [400.0]}, "gpu"))
    assert "has 0.50 of decode, full size + resize; the aim of 0.8 is not reached" in text
    assert "a GPU needs 4.00 cores of input" in text
    assert "the input is the bottleneck" in text


def test_a_slow_model_needs_little_and_not_nothing():
    text = "\n".join(table({RESIZE: [600.0], PIPELINE: [500.0], MODEL: [1.5]}, "cpu"))
    assert "a core that trains needs 0.003 cores of input" in text
