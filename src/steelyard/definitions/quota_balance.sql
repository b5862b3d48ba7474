CREATE OR REPLACE MACRO counts_accelerators(resource) AS
  regexp_full_match(
    resource,
    '(requests\.)?(gpu|[^/]+/((gpu|npu|xpu|dcu|gcu|ppu|mlu|tpu|pgpu|gpu-number|vgpu-number|i915|xe|gaudi|vmlu|dcunum|sgpu|vgpu|vxpu|vgcu|shared-gcu|neuron|neurondevice|neuroncore)(\.shared)?|mig-[^/]+|Ascend[^/]+|mlu[^/.]+|mlu[^/]+\.s(hare|mlu)|[^/]+-vgpu))'
  ) AND NOT ends_with(resource, '-memory');

CREATE OR REPLACE MACRO amount_milli(milli) AS
  CASE WHEN milli BETWEEN -1000000000 AND 1000000000 THEN milli END;

CREATE OR REPLACE MACRO above_milli(used, nominal) AS
  CASE WHEN used > nominal THEN used - nominal WHEN used <= nominal THEN 0 END;

CREATE OR REPLACE MACRO within_milli(used, nominal) AS
  CASE WHEN used > nominal THEN nominal WHEN used <= nominal THEN used END;

CREATE OR REPLACE MACRO reserved_not_used_milli(reserved, used) AS
  CASE WHEN reserved > used THEN reserved - used WHEN reserved <= used THEN 0 END;

CREATE OR REPLACE MACRO spare_milli(nominal, reserved, used) AS
  nominal - CASE WHEN reserved IS NULL THEN used WHEN used IS NULL THEN reserved WHEN reserved > used THEN reserved ELSE used END;
