"""A folder of one's own, and the real data sets."""

from tests.data.conftest import shared as shared
from tests.data.conftest import workspace as workspace
