"""Signatures of webhooks, compared with what others have computed."""

from __future__ import annotations

import base64
import subprocess

import pytest

from shiftboss.rules.notifications.signatures import BadSecret, key_of, signed_headers
from tests.programs import program

pytestmark = pytest.mark.requirement("OWN-20")

# The example of the libraries of Standard Webhooks.
PUBLISHED_KEY = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PUBLISHED_SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_published_example_of_standard_webhooks() -> None:
    headers = signed_headers(
        key_of("whsec_" + PUBLISHED_KEY),
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert headers["webhook-signature"] == PUBLISHED_SIGNATURE
    assert headers["webhook-id"] == "msg_p5jXN8AQM9LWM0D4loKWxJek"
    assert headers["webhook-timestamp"] == "1614265330"


def test_openssl_computes_the_same() -> None:
    key = key_of("a plain secret that is long enough")
    body = '{"text": "größer"}'.encode()
    openssl = program("openssl")
    output = subprocess.run(
        [openssl, "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{key.hex()}", "-binary"],
        input=b"msg_1.1800000000." + body,
        capture_output=True,
        check=True,
    ).stdout
    signature = signed_headers(key, "msg_1", 1_800_000_000, body)["webhook-signature"]
    assert signature == f"v1,{base64.b64encode(output).decode()}"


@pytest.mark.parametrize("secret", ["hunter2", "whsec_not Base64!", "whsec_c2hvcnQ="])
def test_a_secret_that_cannot_sign_is_refused_without_showing_it(secret: str) -> None:
    with pytest.raises(BadSecret) as refusal:
        key_of(secret)
    assert secret not in str(refusal.value)
