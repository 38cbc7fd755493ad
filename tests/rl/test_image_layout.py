import numpy as np
import pytest

from sample_factory.rl.image_layout import turned_shape, write_turned


def test_every_pixel_finds_its_place():
    image = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)
    target = np.zeros(turned_shape(image.shape), np.uint8)
    write_turned(image, target)
    assert target.shape == (4, 5, 3)
    assert all(target[y, x, c] == image[c, y, x] for c in range(3) for y in range(4) for x in range(5))


def test_lists_and_wider_integers_are_taken_as_before():
    target = np.zeros((1, 2, 2), np.uint8)
    write_turned([[[1, 2]], [[3, 4]]], target)
    assert target.tolist() == [[[1, 3], [2, 4]]]


@pytest.mark.parametrize("shape", [(2, 4, 5), (4, 4, 5), (4, 5, 3), (5, 4, 3)])
def test_an_image_of_another_shape_is_refused(shape):
    with pytest.raises(ValueError, match=r"\(3, 4, 5\) was promised"):
        write_turned(np.zeros(shape, np.uint8), np.zeros((4, 5, 3), np.uint8))
