export type { DeviceMemory, DeviceName, MlaAlgorithm } from './backend'
export { type Captured, type CapturedOf, type CapturedResult, capture } from './capture'
export {
  fromNdarray,
  type InferredDType,
  type NestedNumbers,
  type SelfDescribing,
  type StridedArray,
  type TensorOptions,
  tensor,
} from './create'
export { type Csr, csr, type IndexArray, type Segments, segments } from './csr'
export {
  type DeviceChoice,
  defaultDevice,
  device,
  devices,
  emptyCache,
  memory,
  setDefaultDevice,
  synchronize,
} from './device'
export type { DataOf, DType, FloatDType } from './dtype'
export type { NumericArray } from './elements'
export { type ArgumentError, type ArgumentErrorCode, DeviceError, type DeviceErrorCode } from './errors'
export { type Info, info } from './info'
export { type CsrMaxOptions, type CsrMaxResult, csrMax } from './ops/csr_max'
export { type Degrees, type GcnAggregateOptions, gcnAggregate } from './ops/gcn_aggregate'
export { type MlaAttentionOptions, mlaAttention } from './ops/mla_attention'
export { type MlaDecodeOptions, mlaDecode } from './ops/mla_decode'
export type { MlaCache, MlaResult, MlaSettings } from './ops/mla_keys'
export { segmentSoftmax } from './ops/segment_softmax'
export { type Synchronous, scope } from './scope'
export { type Nested, type RankOf, type Shape, Tensor } from './tensor'
