"""Steelyard: explains, governs and settles a shared GPU estate.

Read the packages in the order in which the data flows: ``primitives``, ``definitions``, ``facts``, ``sources``, ``store``,
``ledgers``, ``answers``, ``surfaces``, ``app``. ARCHITECTURE.md holds the sentences that the import contracts enforce.
"""

__version__ = "0.1.0"
