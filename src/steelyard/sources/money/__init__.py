"""What people and providers write down about money: price books, the tenancy tree, exchange rates, use of services, cloud bills."""

from steelyard.sources.money.exchange_rates import DeclaredRates, read_exchange_rates
from steelyard.sources.money.price_book import (
    Declaration,
    DeclaredBook,
    book_name,
    is_toml_book,
    numbered,
    read_price_book,
)
from steelyard.sources.money.tenancy import DeclaredTree, numbered_tree, read_tenancy

__all__ = [
    "Declaration",
    "DeclaredBook",
    "DeclaredRates",
    "DeclaredTree",
    "book_name",
    "is_toml_book",
    "numbered",
    "numbered_tree",
    "read_exchange_rates",
    "read_price_book",
    "read_tenancy",
]
