"""A folder of one's own."""

from tests.data.conftest import workspace as workspace
