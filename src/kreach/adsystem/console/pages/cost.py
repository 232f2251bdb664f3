from kreach.adsystem.console.frame import Frame


def cost_page(frame: Frame, *_: str) -> None: ...
