"""TLS over a socket that we read ourselves, so that the stamps stay the kernel's."""

import asyncio
import socket
import ssl

_RECORD = 64 * 1024


class TlsSession:
    """Turns ciphertext into plaintext and back through memory buffers (ssl.MemoryBIO)."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._in, self._out, server_hostname=host)
        self.closed = False

    async def handshake(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        """Shake hands over a connected non-blocking socket; ssl.SSLError where that fails."""
        while True:
            try:
                self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                await loop.sock_sendall(sock, self._out.read())
                data = await loop.sock_recv(sock, _RECORD)
                if not data:
                    raise ConnectionError("the server closed during the TLS handshake") from None
                self._in.write(data)
            else:
                await loop.sock_sendall(sock, self._out.read())
                return

    def encrypt(self, data: bytes) -> bytes:
        """Plaintext to what goes on the wire."""
        self._ssl.write(data)
        return self._out.read()

    def decrypt(self, data: bytes) -> bytes:
        """What came from the wire to the plaintext that is whole by now, maybe none yet."""
        self._in.write(data)
        parts = []
        while not self.closed:
            try:
                part = self._ssl.read(_RECORD)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                part = b""
            self.closed = not part
            parts.append(part)
        return b"".join(parts)


def refusal(error: BaseException) -> str | None:
    """Why TLS failed, in one line, if that is what `error` or anything that it follows from says.

    Null where it was not TLS.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"the certificate is refused ({cause.verify_message.rstrip('.')}): use the name "
                "that it is made for, give its CA by --ca, or trust anything by --insecure"
            )
        if isinstance(cause, ssl.SSLError):
            reason = (cause.reason or str(cause)).replace("_", " ").lower()
            return f"TLS failed ({reason}): does the server speak https?"
        cause = cause.__cause__ or cause.__context__
    return None
