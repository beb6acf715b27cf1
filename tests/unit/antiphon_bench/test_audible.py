import numpy as np

from antiphon_bench.clients.base import AudibleDetector


def test_the_first_sample_above_the_threshold_is_found_once() -> None:
    detector = AudibleDetector(threshold_dbfs=-50.0)  # 32768 * 10 ** -2.5 = 103.6
    assert detector.feed(np.array([0, 103, -103], dtype=np.int16)) is None
    assert detector.feed(np.array([50, -104, 3000], dtype=np.int16)) == 1
    assert detector.found
    assert detector.feed(np.array([3000], dtype=np.int16)) is None


def test_the_most_negative_sample_is_loud() -> None:
    assert AudibleDetector().feed(np.array([0, -32768], dtype=np.int16)) == 1
