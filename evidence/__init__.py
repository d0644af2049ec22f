"""Experiments that take hours, as they ran: params, cells, and what the cells say."""
