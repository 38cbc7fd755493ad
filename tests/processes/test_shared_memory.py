from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from sample_factory.processes.child_call import call_in_child
from sample_factory.processes.shared_memory import ArraySpec, SharedArrays, slab_size
from tests.processes import children

SPECS = {
    "bytes": ArraySpec((3,), "uint8", fill=7),
    "reals": ArraySpec((2, 5), "float32", fill=-1.5),
    "numbers": ArraySpec((4,), "int64"),
}


@pytest.mark.processes
def test_a_child_process_sees_and_changes_the_same_bytes() -> None:
    arrays = SharedArrays(SPECS)
    arrays["numbers"][:] = [1, 2, 3, 4]
    found = call_in_child(children.double_all, arrays, timeout=60)
    assert found == {"bytes": [7] * 3, "reals": [-1.5] * 10, "numbers": [1, 2, 3, 4]}
    assert arrays["numbers"].tolist() == [2, 4, 6, 8]
    assert arrays["bytes"].tolist() == [14] * 3
    arrays.close()


def test_arrays_start_on_cache_lines_and_do_not_overlap() -> None:
    arrays = SharedArrays(SPECS)
    starts = [array.__array_interface__["data"][0] for array in arrays.values()]
    ends = [start + array.nbytes for start, array in zip(starts, arrays.values(), strict=True)]
    assert [start % 64 for start in starts] == [0, 0, 0]
    assert ends[0] <= starts[1]
    assert ends[1] <= starts[2]
    arrays.close()


def test_a_slab_counts_whole_cache_lines() -> None:
    assert slab_size(SPECS) == 64 + 64 + 64
    assert slab_size({"one": ArraySpec((65,), "uint8")}) == 128


def test_arrays_start_with_their_fill_value() -> None:
    arrays = SharedArrays({"nan": ArraySpec((2,), "float64", fill=float("nan")), **SPECS})
    assert np.isnan(arrays["nan"]).all()
    assert arrays["reals"].tolist() == [[-1.5] * 5] * 2
    assert arrays["numbers"].tolist() == [0] * 4
    arrays.close()


def test_empty_and_scalar_arrays_are_possible() -> None:
    arrays = SharedArrays({"none": ArraySpec((0, 4), "float32"), "one": ArraySpec((), "int32", fill=5)})
    assert arrays["none"].shape == (0, 4)
    assert arrays["one"] == 5
    arrays.close()


def test_nothing_appears_in_dev_shm_and_the_memory_goes_with_its_last_user() -> None:
    before = set(os.listdir("/dev/shm"))
    arrays = SharedArrays(SPECS, label="a_label_of_this_test")
    assert set(os.listdir("/dev/shm")) <= before
    assert "a_label_of_this_test" in Path("/proc/self/maps").read_text()
    arrays.close()
    del arrays
    assert "a_label_of_this_test" not in Path("/proc/self/maps").read_text()


def test_closing_twice_is_harmless() -> None:
    arrays = SharedArrays(SPECS)
    fd = arrays._fd
    arrays.close()
    arrays.close()
    with pytest.raises(OSError):
        os.fstat(fd)
