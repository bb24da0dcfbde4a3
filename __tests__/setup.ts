// Before the library is loaded: outputs start as NaN, so that an element nobody wrote is seen.
process.env.WARPGRAPH_POISON = '1'
