from kreach.adsystem.console.frame import Frame


def privacy_page(frame: Frame, *_: str) -> None: ...
