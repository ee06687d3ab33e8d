"""The certificate that a listener shows: until when it is good, and what is said of one that soon is not."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from exporter import catalog


def certificate_end(file: Path) -> datetime | None:
    """Of the first certificate in the PEM file, which is the listener's own; None for what OpenSSL alone can read."""
    try:
        return x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc
    except (OSError, ValueError):
        return None


def certificate_doubt(file: Path, end: datetime | None) -> str:
    """What is wrong with a certificate that has ended, or ends soon; empty for any other."""
    now = datetime.now(UTC)
    if end is None or end > now + timedelta(seconds=catalog.CERTIFICATE_SOON_SECONDS):
        return ""
    if end > now:
        return f"the certificate in {file} ends at {end:%Y-%m-%d %H:%M} UTC: renew it"
    return f"the certificate in {file} ended at {end:%Y-%m-%d %H:%M} UTC: clients that check it stay away"
