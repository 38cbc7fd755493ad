"""Text that others wrote is shown without the secrets in it."""

import pytest

from sample_factory.config.redaction import blanked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("--wandb_api_key=abc --env=x", "--wandb_api_key=*** --env=x"),
        ("--github-token abc", "--github-token ***"),
        ("export WANDB_API_KEY='abc'", "export WANDB_API_KEY='***'"),
        ('{"password": "abc", "b": 1}', '{"password": "***", "b": 1}'),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("https://user:abc@host/x", "https://user:***@host/x"),
    ],
)
def test_the_value_of_a_secret_is_blanked(text: str, shown: str) -> None:
    assert blanked(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "the token expired",
        "ValueError: bad key: 3",
        "http://localhost:8000/x@y",
        "--learning_rate=0.1 --env x",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert blanked(text) == text
