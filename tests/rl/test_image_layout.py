import sys

import numpy as np
import pytest

from sample_factory.rl.image_layout import turned_shape, write_turned


@pytest.fixture(params=["numpy", "OpenCV"])
def library(request, monkeypatch):
    """What turns the images: OpenCV where an environment has loaded it."""
    if request.param == "numpy":
        monkeypatch.delitem(sys.modules, "cv2", raising=False)
    else:
        monkeypatch.setitem(sys.modules, "cv2", pytest.importorskip("cv2"))


@pytest.mark.parametrize("channels", [1, 3, 4, 12])
def test_every_pixel_finds_its_place(library, channels):
    image = np.arange(channels * 4 * 5, dtype=np.uint8).reshape(channels, 4, 5)
    target = np.zeros(turned_shape(image.shape), np.uint8)
    write_turned(image, target)
    assert target.shape == (4, 5, channels)
    places = [(c, y, x) for c in range(channels) for y in range(4) for x in range(5)]
    assert all(target[y, x, c] == image[c, y, x] for c, y, x in places)


def test_parts_of_larger_pictures_are_turned_into_parts_of_larger_arrays(library):
    image = np.arange(3 * 8 * 10, dtype=np.uint8).reshape(3, 8, 10)[:, ::2, 5:]
    store = np.zeros((2, 3, 4, 5, 3), np.uint8)
    write_turned(image, store[1, 2])
    assert (store[1, 2] == image.transpose(1, 2, 0)).all()
    store[1, 2] = 0
    assert not store.any()


def test_a_batch_is_turned_image_by_image(library):
    images = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    target = np.zeros((2, 4, 5, 3), np.uint8)
    write_turned(images, target)
    assert (target == images.transpose(0, 2, 3, 1)).all()


def test_lists_and_wider_integers_are_taken_as_before(library):
    target = np.zeros((1, 2, 2), np.uint8)
    write_turned([[[1, 2]], [[3, 4]]], target)
    assert target.tolist() == [[[1, 3], [2, 4]]]


@pytest.mark.parametrize("shape", [(2, 4, 5), (4, 4, 5), (4, 5, 3), (5, 4, 3)])
def test_an_image_of_another_shape_is_refused(library, shape):
    with pytest.raises(ValueError, match=r"\(3, 4, 5\) was promised"):
        write_turned(np.zeros(shape, np.uint8), np.zeros((4, 5, 3), np.uint8))
