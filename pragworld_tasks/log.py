"""The package's logger: below lm-eval's own, whose format and verbosity it shares."""

import logging

logger = logging.getLogger("lm_eval.pragworld")
