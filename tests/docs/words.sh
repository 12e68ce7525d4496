#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Texts for users contain neither words that only the source uses, nor words that the field's terms have replaced:
# the messages of plugin and tool, the texts of explain's rules, and the documents for users. Usage: words.sh SOURCE_DIR
set -u
cd "${1:?}" || exit 1
documents='README.md SECURITY.md CONTRIBUTING.md docs/anynet.1 docs/failures.md docs/hardware.md docs/install.md docs/nccl.md docs/operations.md
	docs/releasing.md docs/scale.md docs/settings.md docs/tool.md docs/troubleshooting.md'
words='rails?|comms?|heal(s|ed|ing)?|strangers?|guardian|grants?|set aside|arrivals?|lingers?|doubts?|in doubt|sent again'
words="$words|under way|loader'?s way|packet filter|for want of|told|is ill"

# NCCL calls networks of adapters rails, and NCCL INFO begins a line of its log.
rules=tools/explain/rules.txt
! { grep -nwiE "$words" tests/docs/messages-plugin.txt tests/docs/messages-tool.txt $documents
	grep -nE '^(title|why|fix) ' $rules | grep -wiE "$words" | sed "s|^|$rules:|"; } |
	grep -vE ':rail|rail, plane|Rail and plane|across rails|which rail|rails (that )?are|rail 0|RAIL|NCCL INFO' || exit 1

# Nor do identifiers, comments and the documents for developers. (Other meanings: the board of an adapter, board_id in
# sysfs, a rail of NCCL's, the kernel's SO_LINGER.)
gone='stranger|guardian|\bboards?\b|[a-z]_board\b|\bboard_|BOARD_|\brails?\b|_rails?\b|\brails?_|doubt|linger|\barrivals\b'
gone="$gone|_arrival|set aside|\bgrants?\b|_grants?\b|GRANT|under way"
! grep -rniIE "$gone" plugin transports include tools bench tests docs CHANGELOG.md --include='*.[ch]' --include='*.def' \
	--include='*.sh' --include='*.txt' --include='*.cmake' --include='*.md' --exclude=words.sh --exclude=rules.txt \
	--exclude-dir=corpus |
	grep -vE '"board"|board_id|port on the board|reseat the board|firmware, board,' |
	grep -viE 'rail_?id|plane|RAIL_POLICY|RAIL_LOCAL|PER_HOST|MERGE_POLICY|name_filter\.|fake_comm|\.rails|struct linger|so_linger' |
	grep -vE 'tests/sim/(selfcheck|tcp|calls_option)\.[ch]|taken for granted'
