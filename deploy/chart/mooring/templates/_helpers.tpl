{{/* The reference of one of Mooring's images: (list . "mooring-csi-attacher") */}}
{{- define "mooring.image" -}}
{{- $images := (index . 0).Values.images -}}
{{- $name := index . 1 -}}
{{- $whole := index $images.instead $name -}}
{{- if $whole -}}
{{ $whole }}
{{- else -}}
{{ with $images.registry }}{{ . }}/{{ end }}{{ $name }}:{{ $images.tag }}
{{- end -}}
{{- end -}}
