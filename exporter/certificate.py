"""The certificate that a listener shows: until when it is good, and what is said of one that soon is not."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

SOON: Final = timedelta(days=14)
"""Whoever renews certificates by machine has done it by then; by hand there is time to."""


def certificate_end(file: Path) -> datetime | None:
    """Of the first certificate in the PEM file, which is the listener's own; None for what OpenSSL alone can read."""
    try:
        return x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc
    except (OSError, ValueError):
        return None


def certificate_doubt(file: Path, end: datetime | None) -> str:
    """What is wrong with a certificate that has ended, or ends soon; empty for any other."""
    now = datetime.now(UTC)
    if end is None or end > now + SOON:
        return ""
    if end > now:
        return f"the certificate in {file} ends at {end:%Y-%m-%d %H:%M} UTC: renew it"
    return f"the certificate in {file} ended at {end:%Y-%m-%d %H:%M} UTC: clients that check it stay away"
