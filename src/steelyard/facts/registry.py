"""All fact tables, in the order in which a newcomer should read them."""

from __future__ import annotations

from typing import Final

from steelyard.facts.audit_event import AuditEvent
from steelyard.facts.base import Fact
from steelyard.facts.bill_line import BillLine
from steelyard.facts.container import Container
from steelyard.facts.decision import Decision
from steelyard.facts.device import Device
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.event import Event
from steelyard.facts.exchange_rate import ExchangeRate
from steelyard.facts.finding import Finding
from steelyard.facts.gang import Gang
from steelyard.facts.grant import Grant
from steelyard.facts.import_file import ImportFile
from steelyard.facts.inventory_basis import InventoryBasis
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.namespace import Namespace
from steelyard.facts.node import Node
from steelyard.facts.node_zone import NodeZone
from steelyard.facts.owner import Owner
from steelyard.facts.ownership import Ownership
from steelyard.facts.partition_sample import PartitionSample
from steelyard.facts.preemption import Preemption
from steelyard.facts.price import BookWeight, Discount, Price, PriceBook
from steelyard.facts.process_sample import ProcessSample
from steelyard.facts.queue import Queue
from steelyard.facts.quota import Quota
from steelyard.facts.refusal import Refusal
from steelyard.facts.request import Request
from steelyard.facts.service_use import ServiceUse
from steelyard.facts.sighting import Sighting
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.tenancy import Tenancy
from steelyard.facts.transition import Transition
from steelyard.facts.unit import Unit

FACTS: Final[tuple[type[Fact], ...]] = (
    Node,
    NodeZone,
    Namespace,
    Device,
    Unit,
    Request,
    Container,
    Grant,
    Owner,
    Ownership,
    Sighting,
    DeviceSample,
    ProcessSample,
    PartitionSample,
    MetricSample,
    Event,
    Transition,
    Queue,
    Quota,
    Gang,
    Decision,
    Preemption,
    Refusal,
    AuditEvent,
    PriceBook,
    Price,
    Discount,
    BookWeight,
    ExchangeRate,
    Tenancy,
    ServiceUse,
    BillLine,
    Finding,
    SourceStatus,
    InventoryBasis,
    ImportFile,
)
