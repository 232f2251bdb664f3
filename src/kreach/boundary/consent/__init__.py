"""Consent and policy signals of OpenRTB requests: their fields, and decoders of their strings.

Decoders are pure: text in, values out, `KreachError` where the text is not what it should be. A
string is never quoted in an error: it may be personal data.
"""
