# SPDX-License-Identifier: Apache-2.0
# What `make check` runs: the tests with the label `quick`, in a release and in an ASan+UBSan build. Together they
# take under six minutes on 2 cores, builds included; `make check-all` runs the others too. A name is quick if
# one of these regular expressions matches all of it (without the prefix of its build). The programs of other
# unit tests and fuzzers are built by the target `slow_tests`, and not by `all`.

set(anynet_quick_both
	"explain\\..*" "faults\\.(cut-small|cut-checksum|abort-setting-up|abort-standing)")

set(anynet_quick_release
	# Unit tests that exist in this build only. The stand-ins.
	"test_(cluster_live_large|copy_code|environment|nccl_h|real_.*|releases)" "(cuda|verbs)\\..*"
	includes floors sizes artefact install "check\\..*" "docs\\.(commands|links|messages-.*|times|transcripts|words)" "model\\.mutations"
	# Over TCP: v12 whole (but `large`, of 1 GiB), of the other versions what a version changes.
	"conformance\\.tcp\\.v12\\.(close|connect|crowd|doors|lifecycle|lines|logging|many|memory|nomalloc)"
	"conformance\\.tcp\\.v12\\.(replay|secret|select|unauthenticated|threads)"
	"conformance\\.tcp\\.v(8|12)\\.properties"
	"conformance\\.tcp\\.v12\\.[a-z]+-(4streams|1thread|zerocopy|zerocopy-4streams|rendezvous)"
	"conformance\\.tcp\\.v12\\.[a-km-z]+-cuda(-slow|-checksum|-strict)?"
	"conformance\\.tcp\\.v[0-9]+\\.(transfer|connect|grouped)"
	# Over queue pairs.
	"conformance\\.ib\\.v12\\.(close|connect|dead-alone-quick|doors|failover|cts|many|replay|unauthenticated|transfer|grouped|insist)"
	"conformance\\.ib\\.v12\\.(cm|connect|transfer)-cm" "conformance\\.ib\\.v12\\.(fused|failover)-fused"
	"conformance\\.ib\\.v12\\.(gpu-cuda|transfer-cuda|transfer-cuda-dmabuf)"
	"conformance\\.ib\\.v12\\.transfer-torn" "conformance\\.ib\\.v12\\.(transfer|grouped)-copies" "conformance\\.(tcp|ib)\\.v12\\.(transfer|grouped)-wrap"
	"conformance\\.ib\\.(v10\\.transfer-8qps|v10\\.grouped-4qps|v9\\.transfer-checksum|v[58]\\.transfer)"
	"faults\\.(cut-4-streams|cut-zerocopy|cut-draining|reset-from-middle|recovery-off|stopped|link-flaps|killed|close-alone|killed-worker)"
	"sim\\.(calls|same|seeds|selfcheck|swarm)"
	"(top|tool)\\..*"
	"pair\\.(clean|loopback|unauthenticated|usage|settings|killed|verbs)" "cluster\\.(settings|rendezvous|page|usage)"
	"package\\.(contents|completion|unit)" "real\\.(measure|scenes|errors|dry)")

set(anynet_quick_asan
	# Unit tests, ABI tests, the corpora of the fuzzers: in the release build they are part of `rest`.
	"test_.*" "fuzz_.*" "cuda\\..*"
	"check\\.(clean|files|filter|hostile)"
	"conformance\\.tcp\\.v12\\.(close|connect|lifecycle|memory|unauthenticated|threads|transfer|grouped|secret|replay)"
	"conformance\\.tcp\\.v12\\.(transfer|grouped|memory)-4streams"
	"conformance\\.tcp\\.v12\\.(close|gpu|memory|transfer|grouped)-cuda"
	"conformance\\.ib\\.v12\\.(close|connect|failover|transfer|grouped|unauthenticated)"
	"conformance\\.ib\\.v12\\.(transfer-cm|fused-fused|gpu-cuda|transfer-cuda)"
	"faults\\.(cut-tags|cut-many)")

# The longest tests start first, because at the end they would run alone. (ctest knows this from its second run on.)
set(anynet_long "conformance\\.ib\\..*(dead|failover)|sim\\.swarm|pair\\.(unauthenticated|killed)|test_(resume|gpu_breaks|explain_rules|http)$|"
	"docs\\.commands|verbs\\.|check\\.(system|ib|master)|faults\\.(stopped|link-flaps)|tool\\.stopped|top\\.stale|package\\.contents|model\\.mutations")
string(CONCAT anynet_long ${anynet_long})

# anynet_is_quick(name result)
function(anynet_is_quick name result)
	set(patterns ${anynet_quick_both})
	if(ANYNET_SANITIZE STREQUAL "address" AND NOT ANYNET_FUZZ)
		list(APPEND patterns ${anynet_quick_asan})
	elseif(NOT ANYNET_SANITIZE)
		list(APPEND patterns ${anynet_quick_release})
	else()
		set(patterns "")
	endif()
	set(${result} OFF PARENT_SCOPE)
	foreach(pattern ${patterns})
		if(name MATCHES "^${pattern}$")
			set(${result} ON PARENT_SCOPE)
			return()
		endif()
	endforeach()
endfunction()
