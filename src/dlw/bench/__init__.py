"""The benchmark: cases as data, records that are never made twice, reports."""
