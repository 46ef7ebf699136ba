"""A base for the models that tests make up."""

from arithmetext.models.language import LanguageModel


class StandIn(LanguageModel):
    """Subclasses define `read`."""

    description = "a stand-in"
