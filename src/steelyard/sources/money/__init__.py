"""What people and providers write down about money: price books, the tenancy tree, exchange rates, use of services, cloud bills."""

from steelyard.sources.money.bill import read_bill_csv
from steelyard.sources.money.bill_parquet import read_bill_parquet
from steelyard.sources.money.exchange_rates import DeclaredRates, read_exchange_rates
from steelyard.sources.money.price_book import (
    Declaration,
    DeclaredBook,
    book_name,
    is_toml_book,
    numbered,
    read_price_book,
)
from steelyard.sources.money.service_use import is_service_log, read_service_log, read_service_use
from steelyard.sources.money.sniffing import sniff_money
from steelyard.sources.money.tenancy import DeclaredTree, numbered_tree, read_tenancy

__all__ = [
    "Declaration",
    "DeclaredBook",
    "DeclaredRates",
    "DeclaredTree",
    "book_name",
    "is_service_log",
    "is_toml_book",
    "numbered",
    "numbered_tree",
    "read_bill_csv",
    "read_bill_parquet",
    "read_exchange_rates",
    "read_price_book",
    "read_service_log",
    "read_service_use",
    "read_tenancy",
    "sniff_money",
]
