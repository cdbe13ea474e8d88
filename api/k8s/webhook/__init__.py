"""Volcano's admission webhook: AdmissionReview in, verdict and JSON patch out."""
