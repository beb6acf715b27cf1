"""A family without a network: both stages speak the whole protocol at calibrated speed."""
